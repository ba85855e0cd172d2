#include "cli/json_lines.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr int kDeepest = 16;  // nested lists and objects; our own files have two levels

// Reads a file line by line.
class Lines {
 public:
  Lines(const std::string& path, std::string_view noun)
      : path_(path), noun_(noun), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!fd_.valid()) {
      throw io_error("cannot open file", errno, {.path = path});
    }
  }

  /// Reads the next line, without its end; returns false after the last one. Throws Error: kIo,
  /// kInvalidArgument for a line that is too long.
  bool read(std::string& line);
  /// Whether the last line that was read had no end.
  bool is_cut() const { return is_cut_; }

 private:
  void read_chunk();

  const std::string& path_;
  const std::string_view noun_;
  UniqueFd fd_;
  std::string chunk_;
  std::size_t begin_ = 0;  // of the next line, in chunk_
  bool is_cut_ = false;
};

void Lines::read_chunk() {
  chunk_.resize(kChunkBytes);
  ssize_t count = 0;
  do {
    count = ::read(fd_.get(), chunk_.data(), chunk_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == EISDIR) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a folder is not {}; name the files in it, such as 'FOLDER/*.jsonl'", noun_),
        {.path = path_});
  }
  if (count < 0) {
    throw io_error("cannot read file", errno, {.path = path_});
  }
  chunk_.resize(static_cast<std::size_t>(count));
  begin_ = 0;
}

bool Lines::read(std::string& line) {
  line.clear();
  while (true) {
    if (begin_ == chunk_.size()) {
      read_chunk();
      if (chunk_.empty()) {
        is_cut_ = !line.empty();
        return is_cut_;
      }
    }
    const std::size_t found = chunk_.find('\n', begin_);
    const std::size_t end = std::min(found, chunk_.size());
    line.append(chunk_, begin_, end - begin_);
    if (line.size() > kLongestLine) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a line has more than {} bytes: this is not {}", kLongestLine, noun_),
                  {.path = path_});
    }
    begin_ = std::min(end + 1, chunk_.size());
    if (found != std::string::npos) {
      return true;
    }
  }
}

// Returns a discarded value if `text` is not JSON.
Json parse(const std::string& text) {
  const auto check_depth = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("nested more than {} levels deep", kDeepest));
    }
    return true;
  };
  return Json::parse(text, check_depth, false);
}

}  // namespace

LastLine read_json_lines(const std::string& path, std::string_view noun,
                         const std::function<void(const Json&)>& take) {
  Lines lines(path, noun);
  std::string text;
  for (int number = 1; lines.read(text); ++number) {
    try {
      const Json line = parse(text);
      if (line.is_discarded() && lines.is_cut()) {
        return LastLine::kCut;
      }
      if (!line.is_object()) {
        throw Error(ErrorCode::kInvalidArgument,
                    line.is_discarded() ? "not JSON" : "not a JSON object");
      }
      take(line);
    } catch (const Error& error) {
      const std::string problem = printable(error.message());
      throw Error(error.code(),
                  error.code() == ErrorCode::kInvalidArgument
                      ? fmt::format("line {} is not from {}: {}", number, noun, problem)
                      : fmt::format("line {}: {}", number, problem),
                  {.path = path});
    }
  }
  return LastLine::kWhole;
}

std::string cut_line_warning(const std::string& path) {
  return fmt::format("{}: the last line is not complete", printable(path));
}

const Json& field(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is missing", name));
  }
  return *found;
}

std::int64_t to_number(const Json& value, const char* name) {
  // The parser stores non-negative integers as unsigned.
  if (!value.is_number_unsigned() || std::cmp_greater(value.get<std::uint64_t>(), kLargestNumber)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a whole number from 0 to {}, found {}", name,
                            kLargestNumber, value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

std::int64_t number_in(const Json& line, const char* name) {
  return to_number(field(line, name), name);
}

std::string text_in(const Json& line, const char* name) {
  const Json& value = field(line, name);
  if (!value.is_string()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a string, found {}", name, value.type_name()));
  }
  return value.get<std::string>();
}

const Json& keys_in(const Json& line) {
  const Json& keys = field(line, "keys");
  const auto is_string = [](const Json& key) { return key.is_string(); };
  if (!keys.is_array() || !std::all_of(keys.begin(), keys.end(), is_string)) {
    throw Error(ErrorCode::kInvalidArgument, "'keys' must be a list of strings");
  }
  return keys;
}

// --- Names of files ---

std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns,
                                         std::string_view noun) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& file) {
    if (std::find(files.begin(), files.end(), file) == files.end()) {
      files.push_back(file);
    }
  };
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    if (std::filesystem::exists(pattern, ignored)) {
      add(pattern);
      continue;
    }
    glob_t matches{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
    for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
      add(matches.gl_pathv[i]);
    }
    ::globfree(&matches);
    if (status != 0) {
      throw Error(ErrorCode::kNotFound, fmt::format("{} not found", noun), {.path = pattern});
    }
  }
  return files;
}

}  // namespace energon::cli
