// energon get: one sample by its key, one of its parts, or a batch by its restore key.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/decoded_file.h"
#include "cli/flags.h"
#include "cli/loader_flags.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "energon/loader/basic_data_loader.h"
#include "energon/read/find_sample.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/recipe/dataset_yaml.h"
#include "io/tar/member_name.h"
#include "media/decode/sample_decoder.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/recipe/delivered_samples.h"
#include "wrappers/stages/tokenize.h"
#include "wrappers/stages/typed_samples.h"

namespace energon::cli {
namespace {

// --- Files of parts ---

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
    throw Error(ErrorCode::kInvalidArgument,
                "--output must be a folder for a whole sample; to write one part, ask for KEY.part",
                {.path = folder});
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw io_error("cannot create folder", error.value(), {.path = folder});
  }
}

/// Writes a part to the file `folder`/`part`; creates the folder if it does not exist. A name from
/// a shard cannot lead out of the folder. Throws Error: kInvalidArgument if the part's name is not
/// a file name, kIo.
void save_part(const std::string& folder, std::string_view part, ByteView bytes) {
  if (!is_file_name(part)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the name of part '{}' is not a file name; get it alone: KEY.part with --output FILE",
            printable(part)));
  }
  std::filesystem::path path(folder);
  if (!path.has_filename()) {
    path = path.parent_path();
  }
  make_folder(path.string());
  write_file_atomically((path / std::string(part)).string(), bytes);
}

// --- Output for a sample found by its key ---

using OrderedJson = nlohmann::ordered_json;

/// {"shard", "index"}: where a sample is in its dataset.
OrderedJson source_json(const SampleSource& source) {
  return {{"shard", source.shard->shard_name}, {"index", source.index_in_shard}};
}

/// Key, place, parts with their bytes and media metadata, and the digest of the sample.
OrderedJson found_json(const FoundSample& found) {
  OrderedJson json = {{"key", found.sample.keys.at(0)}};
  json["dataset"] = source_of(found.sample, 0).shard->dataset_path;
  json.update(source_json(source_of(found.sample, 0)));
  json["bytes"] = {{"offset", found.bytes.offset}, {"size", found.bytes.size}};
  json["parts"] = OrderedJson::array();
  for (const FoundPart& part : found.parts) {
    json["parts"].push_back(
        {{"name", part.name}, {"offset", part.content.offset}, {"size", part.content.size}});
    if (part.media) {
      json["parts"].back()["media"] = OrderedJson::parse(to_media_json(*part.media));
    }
  }
  json["digest"] = to_hex(digest(found.sample));
  return json;
}

/// Prints the same as text, with the dataset if `is_of_several`. Throws ClosedOutput, Error (kIo).
void print_found(const FoundSample& found, bool is_of_several) {
  const SampleSource& source = source_of(found.sample, 0);
  output().print("key:    {}\n", printable(found.sample.keys.at(0)));
  if (is_of_several) {
    output().print("data:   {}\n", printable(source.shard->dataset_path));
  }
  output().print("shard:  {} (sample {})\n", printable(source.shard->shard_name),
                 source.index_in_shard);
  output().print("bytes:  [{}, {})\n", found.bytes.offset, found.bytes.end());
  output().print("digest: {}\n", to_hex(digest(found.sample)));
  output().write("parts:\n");
  for (const FoundPart& part : found.parts) {
    output().print("  {}: {} at byte {}{}\n", printable(part.name),
                   plural(static_cast<std::int64_t>(part.content.size), "byte"),
                   part.content.offset,
                   part.media ? "  " + printable(to_media_json(*part.media)) : "");
  }
}

// --- Output for the samples of a batch ---

std::string describe_part(const Value& part) {
  const auto* const bytes = std::get_if<SharedBytes>(&part.base());
  return bytes != nullptr ? plural(static_cast<std::int64_t>(bytes->size()), "byte")
                          : describe(part);
}

/// The part of sample `i` in `field` of a batch from list_parts(); null if the sample lacks it.
/// Borrows from `field`.
const Value* part_of_sample(const Value& field, std::size_t i) {
  const Value& part = std::get<List>(field.base()).at(i);
  const auto* const list = std::get_if<List>(&part.base());
  return list != nullptr && list->empty() ? nullptr
                                          : &part;  // list_parts() puts an empty list there
}

/// Keys, restore key and digest, and the place and parts of each sample.
OrderedJson batch_json(const Sample& batch) {
  OrderedJson json = {{"keys", batch.keys.strings()},
                      {"restore_key", batch.restore_key.text()},
                      {"digest", to_hex(digest(batch))},
                      {"samples", OrderedJson::array()}};
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    OrderedJson sample = {{"key", batch.keys[i]}};
    sample.update(source_json(source_of(batch, i)));
    sample["parts"] = OrderedJson::array();
    for (const auto& [name, field] : batch.fields) {
      if (const Value* const part = part_of_sample(field, i)) {
        const auto* const bytes = std::get_if<SharedBytes>(&part->base());
        sample["parts"].push_back(bytes != nullptr
                                      ? OrderedJson{{"name", name}, {"size", bytes->size()}}
                                      : OrderedJson{{"name", name}, {"value", describe(*part)}});
      }
    }
    json["samples"].push_back(std::move(sample));
  }
  return json;
}

/// Prints the same as text. Throws ClosedOutput, Error (kIo).
void print_batch(const Sample& batch) {
  output().print("restore key: {}\n", batch.restore_key.text());
  output().print("digest:      {}\n", to_hex(digest(batch)));
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    output().print("sample {}: {} ({}, sample {})\n", i, printable(batch.keys[i]),
                   printable(source_of(batch, i).shard->shard_name),
                   source_of(batch, i).index_in_shard);
    for (const auto& [name, field] : batch.fields) {
      if (const Value* const part = part_of_sample(field, i)) {
        output().print("  {}: {}\n", printable(name), describe_part(*part));
      }
    }
  }
}

// --- The command ---

struct GetFlags {
  LoaderFlags loader;  // PATH, --split and --cache-dir; the rest for --restore-key
  std::string key;
  std::string restore_key;
  std::string output;
  bool is_json = false;
};

void print_json(const nlohmann::ordered_json& json) { output().print("{}\n", indented_json(json)); }

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

// The typed sample that the dataset.yaml of its dataset describes.
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

// Whether parts are converted into other values.
bool makes_values(const LoaderFlags& flags) {
  return flags.decode || flags.options.data.typed || !flags.tokenizer.empty();
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

// Prints the decoded `found` as JSON, or writes one decoded part to a file.
void give_decoded(const FoundSample& found, const GetFlags& flags) {
  Sample sample = with_tokens(
      flags.loader.options.data.typed ? typed_sample(found, flags) : decoded_sample(found, flags),
      flags);
  const bool is_one = sample.fields.size() == 1;
  if (!flags.output.empty() && flags.output != "-") {
    if (!is_one) {
      throw UsageError{"--output with --decode writes one part: specify KEY.part"};
    }
    save_bytes(flags.output, as_bytes(decoded_file(flags.output, sample.fields[0].second)));
    return;
  }
  output().write(value_json(is_one ? sample.fields[0].second : Value(std::move(sample.fields))));
}

int run_get_by_key(const GetFlags& flags) {
  const WantedSample wanted = parse_wanted(flags.key);
  if (flags.output == "-" && !wanted.part) {
    throw UsageError{"--output - writes one part: specify KEY.part"};
  }
  if (flags.loader.options.data.typed && wanted.part) {
    throw UsageError{"--typed uses all parts of a sample: specify KEY without a part"};
  }
  FoundSample found = look_up_sample(
      flags.loader.path, wanted.key,
      {.open = key_lookup_options(flags.loader),
       .split = flags.loader.is_given("split") ? std::optional(flags.loader.options.data.split)
                                               : std::nullopt});
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

// Whether `energon run` prints such keys. A program with its own functions has more stages in its
// keys.
bool is_batch_of_run(const RestoreKey& key, const LoaderFlags& flags) {
  const int maps =
      (flags.decode || flags.options.data.typed ? 1 : 0) + (flags.tokenizer.empty() ? 0 : 1);
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

// The samples from which the item with this key was made, before any function of its program.
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
    throw UsageError{"--output - writes one part; for the samples of a batch, specify a folder"};
  }
  if (makes_values(flags.loader) && !flags.output.empty()) {
    throw UsageError{
        "--output writes the parts of a batch as they are: omit --decode, --typed and --tokenizer"};
  }
  const RestoreKey key = RestoreKey::from_text(flags.restore_key);
  const bool is_of_run = is_batch_of_run(key, flags.loader);
  const Sample batch = is_of_run ? restore_batch(key, flags) : samples_of(key, flags);
  if (batch.keys.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the restore key '{}' contains no samples",
                                                         printable(flags.restore_key)));
  }
  if (!flags.output.empty()) {
    save_batch(batch, flags.output);
  } else if (flags.is_json) {
    nlohmann::ordered_json json = batch_json(batch);
    json["as_read"] = !is_of_run;
    print_json(json);
  } else {
    print_batch(batch);
    if (!is_of_run) {
      output().write(
          "These are the samples as stored in the data; the program that logged the key made one "
          "item from them.\n");
    }
  }
  return kExitOk;
}

int run_get(const GetFlags& flags) {
  if (flags.key.empty() == flags.restore_key.empty()) {
    throw UsageError{"specify either KEY, KEY.part or --restore-key"};
  }
  return flags.restore_key.empty() ? run_get_by_key(flags) : run_get_by_restore_key(flags);
}

}  // namespace

void add_get(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "get", "Find a sample by its key, or rebuild a batch from its restore key");
  const auto flags = std::make_shared<GetFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kOne);
  command->add_option(
      "KEY", flags->key,
      "Key of a sample, or KEY.part; searched in all splits unless --split is given");
  command->add_option("--restore-key", flags->restore_key,
                      "Restore key from the output of energon run or the log of a program. For a "
                      "run, --split, --mode, --num-workers, --world-size and --logical-shards must "
                      "be the same; for a program, prints the samples as stored in the data");
  command->add_option("--output", flags->output,
                      "Write the raw bytes of one part to this file ('-' = standard output), or "
                      "each part of a sample to a file in this folder; with --decode, write one "
                      "decoded part as .npy, .png, .wav, .txt or .json");
  command->add_flag("--json", flags->is_json, "Print metadata as JSON");
  command->callback([flags, &run] { run = [flags] { return run_get(*flags); }; });
}

}  // namespace energon::cli
