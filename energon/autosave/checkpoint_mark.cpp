#include "energon/autosave/checkpoint_mark.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/distributed/rank_agreement.h"
#include "energon/state/savable.h"
#include "energon/state/state_json.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

constexpr std::int64_t kMarkVersion = 1;
constexpr std::uint64_t kLongestMark = std::uint64_t{1} << 20;

std::string mark_path(const std::string& checkpoint) { return checkpoint + "/" + kMarkName; }

// printable() for each line: JSON keeps the ends of lines.
std::string printable_lines(std::string_view text) {
  std::string lines;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines += printable(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
  return lines + printable(text);
}

std::string to_text(const CheckpointMark& mark) {
  nlohmann::ordered_json json = {{"version", kMarkVersion}, {"complete", mark.complete}};
  if (mark.complete) {
    json["world_size"] = mark.world_size;
    json["digest"] = mark.digest;
    json["side_files"] = mark.side_files;
    if (mark.epoch) {
      json["epoch"] = *mark.epoch;
      json["step_in_epoch"] = mark.step_in_epoch.value_or(0);
    }
  } else {
    json["reason"] = printable_lines(mark.reason);
    if (mark.unfinished) {
      json["unfinished"] = true;
    }
  }
  if (!mark.id.empty()) {
    json["id"] = mark.id;
  }
  return json.dump() + "\n";
}

nlohmann::ordered_json parse_mark(const std::string& text, const std::string& path) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorruptData,
                "not the mark of a checkpoint; remove it to judge by the files of the ranks",
                {.path = path});
  }
}

void read_void(const JsonReader& reader, CheckpointMark& mark) {
  mark.reason = reader.member("reason").text();
  if (const auto unfinished = reader.find("unfinished")) {
    mark.unfinished = unfinished->boolean();
  }
  reader.member("id");  // required here
}

void read_complete(const JsonReader& reader, CheckpointMark& mark) {
  const JsonReader world_size = reader.member("world_size");
  if (world_size.integer() < 1 || world_size.integer() > kMaxLogicalShards) {
    world_size.fail("expected a number of ranks");
  }
  mark.world_size = static_cast<int>(world_size.integer());
  mark.digest = reader.member("digest").text();
  const JsonReader side_files = reader.member("side_files");
  for (const std::string_view name : kSideFileDigests) {
    if (const auto digest = side_files.find(name)) {
      mark.side_files.emplace(name, digest->text());
    }
  }
  if (const auto epoch = reader.find("epoch")) {
    mark.epoch = epoch->integer();
    mark.step_in_epoch = reader.member("step_in_epoch").integer();
  }
}

CheckpointMark from_text(const std::string& text, const std::string& path) {
  const nlohmann::ordered_json json = parse_mark(text, path);
  try {
    const JsonReader reader(json, kMarkName);
    if (const std::int64_t version = reader.member("version").integer(); version != kMarkVersion) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the mark has version {}, but this program reads version {}", version,
                              kMarkVersion));
    }
    CheckpointMark mark{.complete = reader.member("complete").boolean()};
    if (const auto id = reader.find("id")) {
      mark.id = id->text();
    }
    mark.complete ? read_complete(reader, mark) : read_void(reader, mark);
    return mark;
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

// Whether both may belong to one job: the configurations are equal, as are the side files that both
// have.
bool may_be_one_job(const CheckpointMark& mark, const CheckpointMark& other) {
  return mark.digest == other.digest &&
         std::all_of(mark.side_files.begin(), mark.side_files.end(), [&other](const auto& kind) {
           const auto found = other.side_files.find(kind.first);
           return found == other.side_files.end() || found->second == kind.second;
         });
}

}  // namespace

CheckpointMark complete_mark(const SavableDataLoaderState& state) {
  const Config common = common_config(state.config);
  CheckpointMark mark{.complete = true,
                      .world_size = layout_of(state.config).world_size,
                      .digest = agreement_digest(without_side_files(common)),
                      .id = random_digits()};
  for (const std::string_view name : kSideFileDigests) {
    if (const Config values = values_of_member(common, name); !values.empty()) {
      mark.side_files.emplace(name, agreement_digest(values));
    }
  }
  if (const std::optional<EpochStep> at = epoch_step(state)) {
    mark.epoch = at->epoch;
    mark.step_in_epoch = at->step;
  }
  return mark;
}

CheckpointMark void_mark(std::string reason) {
  return {.reason = std::move(reason), .id = random_digits()};
}

CheckpointMark void_mark_of(const CheckpointMark& complete, std::string reason) {
  const std::string text = to_text(complete);
  return {.reason = std::move(reason), .id = to_hex(xxh3_64(as_bytes(text)))};
}

std::string summary_of(const CheckpointMark& mark) {
  CheckpointMark said = mark;
  said.id.clear();
  const std::string text = to_text(said);
  return to_hex(xxh3_64(as_bytes(text)));
}

std::string difference_to(const CheckpointMark& mark, const SavableDataLoaderState& state) {
  const CheckpointMark own = complete_mark(state);
  if (own.world_size != mark.world_size) {
    return fmt::format("its file belongs to a job of {} ranks, the checkpoint to one of {}",
                       own.world_size, mark.world_size);
  }
  if (!may_be_one_job(mark, own)) {
    return fmt::format(
        "its file belongs to another job: the configuration has the digest {}, that of "
        "the checkpoint {}",
        own.digest, mark.digest);
  }
  if (own.epoch && mark.epoch == own.epoch && own.step_in_epoch != mark.step_in_epoch) {
    return fmt::format("its file belongs to step {} of epoch {}, the checkpoint to step {}",
                       own.step_in_epoch.value_or(0), *own.epoch, mark.step_in_epoch.value_or(0));
  }
  return "";
}

std::optional<CheckpointMark> read_mark(const std::string& checkpoint) {
  const std::string path = mark_path(checkpoint);
  std::error_code is_unknown;
  if (!std::filesystem::is_directory(checkpoint, is_unknown)) {
    return std::nullopt;
  }
  std::string text;
  try {
    text = read_file(path, kLongestMark);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) {
      return std::nullopt;
    }
    throw;
  }
  return from_text(text, path);
}

CheckpointMark publish_mark(const std::string& checkpoint, const CheckpointMark& mark) {
  const std::string text = to_text(mark);
  NewFile file(mark_path(checkpoint));
  file.append(as_bytes(text));
  if (file.publish_once()) {
    return mark;
  }
  const std::optional<CheckpointMark> first = read_mark(checkpoint);
  return first ? *first : void_mark("the checkpoint was removed meanwhile");
}

void replace_mark(const std::string& checkpoint, const CheckpointMark& mark) {
  const std::string text = to_text(mark);
  write_file_atomically(mark_path(checkpoint), as_bytes(text));
}

}  // namespace energon
