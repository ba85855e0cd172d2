// energon get: one sample by its key, one of its parts, or a batch by its restore key.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.h"
#include "cli/job/loader_flags.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/open_dataset.h"
#include "cli/job/save_parts.h"
#include "cli/show/batch_samples.h"
#include "cli/show/decoded_file.h"
#include "cli/show/found_sample.h"
#include "cli/show/list_parts.h"
#include "cli/show/output.h"
#include "energon/loader/basic_data_loader.h"
#include "energon/read/find_sample.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/recipe/dataset_yaml.h"
#include "io/tar/member_name.h"
#include "media/decode/sample_decoder.h"
#include "wrappers/held/combine.h"
#include "wrappers/recipe/delivered_samples.h"
#include "wrappers/stages/tokenize.h"
#include "wrappers/stages/typed_samples.h"

namespace energon::cli {
namespace {

struct GetFlags {
  LoaderFlags loader;  // PATH, --split and --cache-dir; the rest for --restore-key
  bool is_split_given = false;
  std::string key;
  std::string restore_key;
  std::string output;
  bool is_json = false;
};

void print_json(const nlohmann::ordered_json& json) {
  output().print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// --- A sample or part by its key ---

// A parsed request: "key" or "key.part". No key has a dot in its last component.
struct WantedSample {
  std::string key;
  std::optional<std::string> part;
};

WantedSample parse_wanted(std::string_view text) {
  if (const auto name = split_member_name(text)) {
    return {std::string(name->key), std::string(name->part)};
  }
  return {std::string(text), std::nullopt};
}

void keep_part(FoundSample& found, const std::string& name) {
  found.sample.at(name);  // throws an Error that lists the parts
  std::erase_if(found.sample.fields, [&](const auto& field) { return field.first != name; });
  std::erase_if(found.parts, [&](const FoundPart& part) { return part.name != name; });
}

// The sample that the dataset.yaml of its dataset describes.
Sample typed_sample(const FoundSample& found, const GetFlags& flags) {
  SampleDecoderOptions options;
  options.image = flags.loader.decode.value_or(options.image);
  Sample sample = found.sample;
  const std::string& folder = source_of(sample, 0).shard->dataset_path;
  TypedSampleMaker(typed_samples_of(read_dataset_yaml(folder, std::nullopt)),
                   SampleDecoder(options))
      .make(sample, heap_memory());
  return sample;
}

Sample decoded_sample(const FoundSample& found, const GetFlags& flags) {
  Sample sample = found.sample;
  if (!flags.loader.decode) {
    return sample;
  }
  SampleDecoder({.image = *flags.loader.decode, .av = AvMode::kTensors, .guess_content = true})
      .decode(sample, heap_memory());
  return sample;
}

// Whether parts are made something else.
bool makes_values(const LoaderFlags& flags) {
  return flags.decode || flags.typed || !flags.tokenizer.empty();
}

Sample with_tokens(Sample sample, const GetFlags& flags) {
  const std::optional<TokenizeOptions> options = tokenize_options(flags.loader);
  if (!options) {
    return sample;
  }
  const CallResources resources;
  const RestoreKey key = sample.restore_key;
  CallContext context(resources, key, 0);
  return tokenize_fields(*options)(std::move(sample), context);
}

// What the decoders make of `found`: on standard output as JSON, or one part in a file.
void give_decoded(const FoundSample& found, const GetFlags& flags) {
  Sample sample = with_tokens(
      flags.loader.typed ? typed_sample(found, flags) : decoded_sample(found, flags), flags);
  const bool is_one = sample.fields.size() == 1;
  if (!flags.output.empty() && flags.output != "-") {
    if (!is_one) {
      throw UsageError{"--output with --decode takes one part: name it, as KEY.part"};
    }
    save_bytes(flags.output, as_bytes(decoded_file(flags.output, sample.fields[0].second)));
    return;
  }
  output().write(value_json(is_one ? sample.fields[0].second : Value(std::move(sample.fields))));
}

int run_get_by_key(const GetFlags& flags) {
  const WantedSample wanted = parse_wanted(flags.key);
  if (flags.output == "-" && !wanted.part) {
    throw UsageError{"--output - takes one part: name it, as KEY.part"};
  }
  if (flags.loader.typed && wanted.part) {
    throw UsageError{"--typed makes a sample of all its parts: name a KEY without a part"};
  }
  FoundSample found = look_up_sample(
      flags.loader.path, wanted.key,
      {.open = key_lookup_options(flags.loader),
       .split = flags.is_split_given ? std::optional(flags.loader.split) : std::nullopt});
  if (wanted.part) {
    keep_part(found, *wanted.part);
  }
  if (makes_values(flags.loader)) {
    give_decoded(found, flags);
  } else if (flags.output.empty()) {
    if (flags.is_json) {
      print_json(found_json(found));
    } else {
      print_found(found, is_metadataset(flags.loader.path));
    }
  } else if (wanted.part) {
    save_bytes(flags.output, found.sample.bytes(*wanted.part).view);
  } else {
    for (const auto& [name, value] : found.sample.fields) {
      save_part(flags.output, name, std::get<SharedBytes>(value.base()).view);
    }
  }
  return kExitOk;
}

// --- A batch by its restore key ---

void save_batch(const Sample& batch, const std::string& folder) {
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    for (const auto& [name, field] : batch.fields) {
      if (const Value* const part = part_of_sample(field, i)) {
        save_part(fmt::format("{}/{}", folder, i), name, std::get<SharedBytes>(part->base()).view);
      }
    }
  }
}

// Whether dump prints such keys. A program with functions of its own has more stages in its keys.
bool is_batch_of_dump(const RestoreKey& key, const LoaderFlags& flags) {
  const int maps = (flags.decode || flags.typed ? 1 : 0) + (flags.tokenizer.empty() ? 0 : 1);
  try {
    const RestoreKeyParts shard = split_key(key, Stage::kLogicalShard, 2, 1);
    for (RestoreKey sample : split_key(shard.inner[0], Stage::kBatch, 1).inner) {
      for (int i = 0; i < maps; ++i) {
        sample = split_key(sample, Stage::kMap, 1, 1).inner[0];
      }
      split_key(sample, Stage::kWebdataset, 2, 0);
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

Sample restore_batch(const RestoreKey& key, const GetFlags& flags) {
  return BasicDataLoader(make_pipeline(flags.loader), loader_options(flags.loader))
      .restore_sample(key);
}

// The samples that the item with this key was made of, before any function of its program.
Sample samples_of(const RestoreKey& key, const GetFlags& flags) {
  std::vector<Sample> samples = read_samples(samples_in(key), open_loader_data(flags.loader));
  Sample batch;
  batch.restore_key = key;
  batch.fields = list_parts(samples);
  move_origins(samples, batch);
  return batch;
}

int run_get_by_restore_key(const GetFlags& flags) {
  if (flags.output == "-") {
    throw UsageError{"--output - takes one part; the samples of a batch go to a folder"};
  }
  if (makes_values(flags.loader) && !flags.output.empty()) {
    throw UsageError{
        "--output writes the parts of a batch as they are: leave --decode, --typed and "
        "--tokenizer out"};
  }
  const RestoreKey key = RestoreKey::from_text(flags.restore_key);
  const bool is_of_dump = is_batch_of_dump(key, flags.loader);
  const Sample batch = is_of_dump ? restore_batch(key, flags) : samples_of(key, flags);
  if (batch.keys.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the restore key '{}' names no sample", printable(flags.restore_key)));
  }
  if (!flags.output.empty()) {
    save_batch(batch, flags.output);
  } else if (flags.is_json) {
    nlohmann::ordered_json json = batch_json(batch);
    json["as_read"] = !is_of_dump;
    print_json(json);
  } else {
    print_batch(batch);
    if (!is_of_dump) {
      output().write(
          "These are the samples as they lie in the data; the program that gave the key "
          "made one item of them.\n");
    }
  }
  return kExitOk;
}

int run_get(const GetFlags& flags) {
  if (flags.key.empty() == flags.restore_key.empty()) {
    throw UsageError{"name what to get: a KEY, KEY.part, or --restore-key, and only one of them"};
  }
  return flags.restore_key.empty() ? run_get_by_key(flags) : run_get_by_restore_key(flags);
}

}  // namespace

void add_get(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("get", "Find a sample by its key, or rebuild a batch by its restore key");
  const auto flags = std::make_shared<GetFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kOne);
  command->add_option(
      "KEY", flags->key,
      "Key of a sample, or KEY.part; looked for in all splits, unless --split is given");
  command->add_option("--restore-key", flags->restore_key,
                      "As dump or the log of any program has it; of a dump --split, --mode, "
                      "--num-workers, --world-size and --logical-shards must be the same, of a "
                      "program the samples are given as they lie in the data");
  command->add_option(
      "--output", flags->output,
      "Write raw bytes: of one part to this file (-: standard output), of a sample "
      "each part to a file of its name in this folder; with --decode, what was made of "
      "one part: .npy, .png, .wav, .txt or .json");
  command->add_flag("--json", flags->is_json, "Metadata as JSON");
  command->callback([flags, command, &run] {
    flags->is_split_given = command->count("--split") > 0;
    run = [flags] { return run_get(*flags); };
  });
}

}  // namespace energon::cli
