#include "cli/flags.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/brace_pattern.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"

namespace energon::cli {

// --- Numbers ---

CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) {
    const auto value = parse_number<std::int64_t>(text);
    return value && *value >= least
               ? std::string()
               : fmt::format("'{}' is not a whole number of at least {}", text, least);
  };
  return CLI::Validator(check, fmt::format("INT >= {}", least));
}

CLI::Validator seconds() {
  const auto check = [](const std::string& text) {
    const auto value = parse_number<double>(text);
    return value && *value >= 0.001 && *value <= 1e9
               ? std::string()
               : fmt::format("'{}' is not a number of seconds from 0.001 to 1e9", text);
  };
  return CLI::Validator(check, "SECONDS in [0.001, 1e9]");
}

void add_limit(CLI::App& command, std::optional<std::int64_t>& limit, std::int64_t least,
               const std::string& help) {
  command.add_option("--limit", limit, help)->check(at_least(least));
}

// --- PATH ---

namespace {

// The folder that all `patterns` begin with, with a slash at its end.
std::string_view common_folder(const std::vector<std::string>& patterns) {
  std::string_view folder = patterns.front();
  folder = folder.substr(0, folder.find('{'));
  for (const std::string& pattern : patterns) {
    while (!pattern.starts_with(folder) || !folder.ends_with('/')) {
      folder.remove_suffix(1);  // stops at the root at the latest
    }
  }
  return folder;
}

// Between braces a comma separates names, but collapse_names() does not escape the commas in names.
std::string with_escaped_commas(std::string_view pattern) {
  std::string escaped;
  for (const char c : pattern) {
    if (c == ',') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string join_tars(std::vector<std::string> paths) {
  if (paths.size() == 1) {
    return paths.front();
  }
  for (std::string& path : paths) {
    if (!is_shard_name(path)) {
      throw CLI::ValidationError(
          "PATH", fmt::format("when several paths are given, each must be a tar; '{}' is not",
                              printable(path)));
    }
    path = std::filesystem::absolute(path).lexically_normal().native();
  }
  const std::vector<std::string> patterns = collapse_names(paths);
  if (patterns.size() == 1) {
    return patterns.front();
  }
  const std::string_view folder = common_folder(patterns);
  std::vector<std::string> rest;
  rest.reserve(patterns.size());
  for (const std::string& pattern : patterns) {
    rest.push_back(with_escaped_commas(std::string_view(pattern).substr(folder.size())));
  }
  return fmt::format("{}{{{}}}", folder, fmt::join(rest, ","));
}

}  // namespace

void add_path(CLI::App& command, std::string& path, PathCount count) {
  if (count == PathCount::kOne) {
    command
        .add_option("PATH", path,
                    "Dataset, metadataset, JSONL file, folder of tars, tar, or brace pattern")
        ->required();
    return;
  }
  command
      .add_option_function<std::vector<std::string>>(
          "PATH", [&path](const std::vector<std::string>& paths) { path = join_tars(paths); },
          "Dataset, metadataset, JSONL file, folder of tars, tars, or brace pattern")
      ->required();
}

// --- Shards ---

void add_threads(CLI::App& command, std::optional<int>& threads) {
  command
      .add_option("--num-workers", threads, "Number of threads [default: one per core, at most 16]")
      ->check(at_least(1));
}

void add_cache_dir(CLI::App& command, std::optional<std::string>& cache_dir, ShardUse use) {
  command.add_option(
      "--cache-dir", cache_dir,
      use == ShardUse::kScan
          ? "Folder for expanded copies of compressed shards"
          : "Folder for indices and expanded shards that cannot be kept next to the data");
}

void add_progress(CLI::App& command, bool& is_shown) {
  command.add_flag("--progress,!--no-progress", is_shown, "Show a progress bar [on]");
}

void add_strict_tars(CLI::App& command, bool& is_given) {
  command.add_flag(
      "--strict-tars", is_given,
      "Fail instead of warning if a tar does not end with zero blocks, so may be truncated, or\n"
      "has data after them");
}

ScanStrictness strictness(bool is_strict) {
  return is_strict ? ScanStrictness::kStrict : ScanStrictness::kNormal;
}

// --- Files to write ---

namespace {

[[noreturn]] void fail(int error_number, const std::string& path, const std::string& option) {
  throw Error(
      ErrorCode::kIo,
      fmt::format("{} cannot be written: {}", option, std::system_category().message(error_number)),
      {.path = path});
}

}  // namespace

void check_writable(const std::string& path, const std::string& option) {
  check_output(path);
  std::error_code ignored;
  // The target of a symbolic link, whether it exists or not.
  std::filesystem::path target = std::filesystem::absolute(path);
  if (const auto meant = std::filesystem::weakly_canonical(target, ignored); !ignored) {
    target = meant;
  }
  const auto status = std::filesystem::status(target, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    if (::access(target.c_str(), W_OK) != 0) {
      fail(errno, target.string(), option);
    }
    return;
  }
  const std::filesystem::path folder = target.parent_path();
  std::string probe = (folder / ".energon-probe-XXXXXX").string();
  const UniqueFd file(::mkostemp(probe.data(), O_CLOEXEC));
  if (file.get() < 0) {
    fail(errno, folder.string(), option);
  }
  ::unlink(probe.c_str());
}

}  // namespace energon::cli
