#include "io/index/jsonl_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "io/error.h"
#include "io/hash.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "indices are little-endian and are read and written as they are");

constexpr std::uint64_t kOffsetBytes = sizeof(std::uint64_t);
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

// What Python's bytes.strip() removes.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Finds the entries of a file that is fed in pieces. A line may span any number of pieces.
class LineScanner {
 public:
  LineScanner(std::string path, std::function<void(std::uint64_t)> emit)
      : path_(std::move(path)), emit_(std::move(emit)) {}

  void feed(std::string_view bytes) {
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t newline = bytes.find('\n', begin);
      const std::size_t end = newline == std::string_view::npos ? bytes.size() : newline + 1;
      extend_line(bytes.substr(begin, end - begin));
      offset_ += end - begin;
      begin = end;
      if (newline != std::string_view::npos) {
        end_line();
      }
    }
  }

  /// Returns the number of samples.
  std::int64_t finish() {
    if (line_begin_ != offset_) {
      end_line();  // the last line has no end of line
    }
    if (samples_ == 0) {
      throw Error(ErrorCode::kCorruptData, "no samples: the file is empty or has only blank lines",
                  {.path = path_});
    }
    emit_(next_entry_);
    return samples_;
  }

 private:
  // Checks only the first and last character of a line that are not white space, and that none is
  // NUL, which JSON cannot contain: zeros over the end of a line would merge two lines.
  void extend_line(std::string_view piece) {
    if (const std::size_t nul = piece.find('\0'); nul != std::string_view::npos) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format(
              "line {} contains a zero byte, which JSON cannot contain: the file was overwritten",
              line_ + 1),
          {.path = path_, .byte_offset = offset_ + nul});
    }
    const auto is_text = [](char c) { return !is_space(c); };
    const auto last = std::find_if(piece.rbegin(), piece.rend(), is_text);
    if (last == piece.rend()) {
      return;
    }
    if (!has_text_) {
      first_ = *std::find_if(piece.begin(), piece.end(), is_text);
    }
    last_ = *last;
    has_text_ = true;
  }

  void end_line() {
    ++line_;
    if (has_text_) {
      if (first_ != '{' || last_ != '}') {
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("line {} is not a JSON object: it {} with '{}'", line_,
                                first_ != '{' ? "begins" : "ends",
                                printable({first_ != '{' ? &first_ : &last_, 1})),
                    {.path = path_, .byte_offset = line_begin_});
      }
      emit_(next_entry_);
      ++samples_;
    }
    if (has_text_ || next_entry_ > 0) {
      next_entry_ = offset_;
    }
    line_begin_ = offset_;
    has_text_ = false;
  }

  const std::string path_;
  const std::function<void(std::uint64_t)> emit_;
  std::int64_t samples_ = 0;
  std::int64_t line_ = 0;
  std::uint64_t offset_ = 0;      // bytes fed
  std::uint64_t next_entry_ = 0;  // where the next sample begins
  std::uint64_t line_begin_ = 0;
  // The line so far: whether it contains anything but white space, and the first and last such
  // character.
  bool has_text_ = false;
  char first_ = '\0';
  char last_ = '\0';
};

bool is_valid_jsonl_index(const std::string& index_path, const FileSource& jsonl) {
  try {
    JsonlIndex::load(index_path, jsonl.size());
    return true;
  } catch (const Error&) {
    return false;  // absent, unreadable or stale: in each case, the index is rebuilt
  }
}

}  // namespace

JsonlIndex JsonlIndex::load(const std::string& index_path, std::uint64_t jsonl_size) {
  const FileSource file(index_path);
  // Each sample has at least two braces and, except for the last, a line end.
  const std::uint64_t most = (jsonl_size / 3 + 2) * kOffsetBytes;
  if (file.size() % kOffsetBytes != 0 || file.size() < 2 * kOffsetBytes || file.size() > most) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not the index of a JSONL file of {} bytes: it has {} bytes",
                            jsonl_size, file.size()),
                {.path = index_path});
  }
  std::vector<std::uint64_t> entries(file.size() / kOffsetBytes);
  file.read_at(0, std::as_writable_bytes(std::span(entries)));
  return from_entries(std::move(entries), jsonl_size, index_path);
}

JsonlIndex JsonlIndex::from_entries(std::vector<std::uint64_t> entries, std::uint64_t jsonl_size,
                                    const std::string& index_path) {
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorCode::kCorruptData, problem, {.path = index_path});
  };
  if (entries.size() < 2) {
    fail("the index has no samples");
  }
  if (entries.front() != 0) {
    fail(fmt::format("the first sample begins at byte {}, not at 0", entries.front()));
  }
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i] <= entries[i - 1]) {
      fail(fmt::format("entry {} is {}, but entry {} is {}; expected increasing entries", i,
                       entries[i], i - 1, entries[i - 1]));
    }
  }
  if (entries.back() != jsonl_size) {
    fail(
        fmt::format("the index ends at byte {}, but the file has {} bytes; it was changed after "
                    "it was indexed: run energon prepare on it",
                    entries.back(), jsonl_size));
  }
  return JsonlIndex(std::move(entries));
}

ByteRange JsonlIndex::range(std::int64_t i) const {
  if (i < 0 || i >= sample_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("sample index {} is out of range: the file has {} samples", i, sample_count()));
  }
  const std::uint64_t begin = entries_[static_cast<std::size_t>(i)];
  return {.offset = begin, .size = entries_[static_cast<std::size_t>(i) + 1] - begin};
}

std::uint64_t JsonlIndex::digest() const { return xxh3_64(std::as_bytes(std::span(entries_))); }

std::string_view whole_line(std::string_view bytes, std::optional<char> before,
                            const ByteRange& range, std::uint64_t file_size) {
  const auto fail = [&range](std::string_view problem) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("bytes {} to {} are not exactly one line of the file: {}; the file was changed "
                    "after it was indexed, or is damaged: run energon prepare on it",
                    range.offset, range.end(), problem),
        {.byte_offset = range.offset});
  };
  if (before && *before != '\n') {
    fail("they do not begin a line");
  }
  if (bytes.empty() || (bytes.back() != '\n' && range.end() != file_size)) {
    fail("they do not end with a line");
  }
  const auto is_text = [](char c) { return !is_space(c); };
  const auto first = std::find_if(bytes.begin(), bytes.end(), is_text);
  const auto last = std::find_if(bytes.rbegin(), bytes.rend(), is_text).base();
  if (first == bytes.end()) {
    fail("they are blank");
  }
  const std::string_view line(&*first, static_cast<std::size_t>(last - first));
  if (line.find('\n') != std::string_view::npos) {
    fail("they span several lines");
  }
  if (line.front() != '{' || line.back() != '}') {
    fail("they are not a JSON object");
  }
  return line;
}

std::string jsonl_index_path(const std::string& jsonl_path) { return jsonl_path + ".idx"; }

std::int64_t write_jsonl_index(const FileSource& jsonl, const std::string& index_path,
                               const std::stop_token& stop) {
  remove_abandoned_once(folder_of(index_path),
                        [](std::string_view name) { return name.ends_with(".idx"); });
  NewFile index(index_path);
  LineScanner scanner(jsonl.path(), [&](std::uint64_t entry) {
    index.append(std::as_bytes(std::span(&entry, 1)));
  });
  std::string block(kReadBytes, '\0');
  for (std::uint64_t offset = 0; offset < jsonl.size(); offset += block.size()) {
    if (stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "indexing was stopped; an existing index is unchanged",
                  {.path = jsonl.path()});
    }
    block.resize(std::min<std::uint64_t>(kReadBytes, jsonl.size() - offset));
    jsonl.read_at(offset, std::as_writable_bytes(std::span(block)));
    scanner.feed(block);
  }
  const std::int64_t samples = scanner.finish();
  if (FileSource(jsonl.path()).identity() != jsonl.identity()) {
    throw Error(ErrorCode::kCorruptData, "the file was changed while it was read",
                {.path = jsonl.path()});
  }
  index.give_time_of(jsonl.identity());
  index.replace();
  return samples;
}

std::optional<std::string> jsonl_proof_of_shrinking(const std::string& old_index_path,
                                                    std::uint64_t jsonl_size) {
  const std::vector<std::uint64_t> old = read_old_index(old_index_path, 1);
  if (old.empty() || old.front() != 0 || old.back() <= jsonl_size) {
    return std::nullopt;
  }
  return fmt::format(
      "the file has {} bytes, but its index lists {} samples that end at byte {}: the file was "
      "truncated after it was indexed",
      jsonl_size, old.size() - 1, old.back());
}

std::string ensure_jsonl_indexed(const std::string& jsonl_path,
                                 const std::optional<std::string>& cache_dir) {
  const FileSource jsonl(jsonl_path);
  std::string beside = jsonl_index_path(jsonl_path);
  if (has_time_of(beside, jsonl.identity()) && is_valid_jsonl_index(beside, jsonl)) {
    return beside;
  }
  const std::string name = cache_name(jsonl_path, jsonl.identity()) + ".idx";
  if (const auto folder = find_folder_in_cache(cache_dir, "index")) {
    std::string cached = fmt::format("{}/{}", *folder, name);
    if (is_valid_jsonl_index(cached, jsonl)) {
      return cached;
    }
  }
  if (const auto proof = jsonl_proof_of_shrinking(beside, jsonl.size())) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}; if that was on purpose, remove '{}' or run energon prepare on the "
                            "file",
                            *proof, printable(beside)),
                {.path = jsonl_path});
  }
  try {
    write_jsonl_index(jsonl, beside);
    if (has_time_of(beside, jsonl.identity())) {
      return beside;
    }
    // The file system did not preserve the time that marks the index as fresh.
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIo && error.code() != ErrorCode::kNotFound) {
      throw;  // the file itself is wrong
    }
    // Read-only, full or gone: use the cache.
  }
  const std::string folder = folder_in_cache(cache_dir, "index");
  make_cache_folder(folder);
  std::string cached = fmt::format("{}/{}", folder, name);
  write_jsonl_index(jsonl, cached);
  return cached;
}

}  // namespace energon
