#include "energon/protocols/job_file.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/distributed/rank_agreement.h"
#include "energon/state/state_json.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

constexpr std::int64_t kJobFileVersion = 1;
constexpr std::size_t kMostLines = 40;

std::string to_text(const Config& common) {
  nlohmann::ordered_json json;
  json["version"] = kJobFileVersion;
  json["digest"] = agreement_digest(common);
  json["config"] = common;
  return json.dump() + "\n";
}

Config read_common(const std::string& path) {
  const std::string text = read_file(path);
  try {
    nlohmann::ordered_json json;
    try {
      json = nlohmann::ordered_json::parse(text);
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorCode::kCorruptData, "not the JOB file of a folder of checkpoints");
    }
    const JsonReader reader(json, kJobFileName);
    if (const std::int64_t version = reader.member("version").integer();
        version != kJobFileVersion) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("version {}, this program knows {}", version, kJobFileVersion));
    }
    return Config(reader.member("config").json());
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

bool exists(const std::string& path) {
  std::error_code is_unknown;
  return std::filesystem::exists(path, is_unknown);
}

// False if another was first.
bool publish(const std::string& path, std::string_view content) {
  NewFile file(path);
  file.append(as_bytes(content));
  return file.publish_once();
}

std::string begun_path(const std::string& folder, int rank) {
  return fmt::format("{}/{}/rank_{}", folder, kBegunFolder, rank);
}

}  // namespace

void agree_through_folder(const std::string& folder, const Config& common, bool replace) {
  const std::string path = folder + "/" + kJobFileName;
  const std::string own = to_text(common);
  if (replace) {
    write_file_atomically(path, as_bytes(own));
    return;
  }
  if (!exists(path) && publish(path, own)) {
    return;
  }
  const Config theirs = read_common(path);
  if (agreement_digest(theirs) == agreement_digest(common)) {
    return;
  }
  std::vector<std::string> lines;
  compare_configs(common, theirs, "", lines);
  if (lines.empty()) {
    return;  // digests that only one of the two has
  }
  const std::size_t count = lines.size();
  if (count > kMostLines) {
    lines.resize(kMostLines);
    lines.push_back(fmt::format("and {} more", count - kMostLines));
  }
  throw Error(
      ErrorCode::kMismatch,
      fmt::format("a rank that began in this folder reads other data or has other settings, so the "
                  "shares of the ranks would overlap or leave gaps. If it is of an earlier start "
                  "that saved nothing, begin anew with start_over (--start-over) on all ranks. It "
                  "differs:\n  {}",
                  fmt::join(lines, "\n  ")),
      {.path = path});
}

void note_begin(const std::string& folder, int rank) {
  const std::string path = folder + "/" + kBegunFolder;
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    throw io_error("cannot make folder", code.value(), {.path = path});
  }
  if (!exists(begun_path(folder, rank))) {
    publish(begun_path(folder, rank), "");
  }
}

bool is_late(const std::string& folder, int rank) {
  return exists(folder + "/" + kJobFileName) && !exists(begun_path(folder, rank));
}

}  // namespace energon
