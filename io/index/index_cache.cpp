#include "io/index/index_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"
#include "io/index/tar_index.h"
#include "io/shared_folder.h"
#include "io/tar/compression.h"
#include "io/tar/shard_scan.h"

namespace energon {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kTarBlock = 512;  // a sample begins at a block

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::optional<std::string> find_default_cache_dir() {
  if (const auto folder = variable("ENERGON_CACHE_DIR")) {
    return *folder;
  }
  if (const auto folder = variable("XDG_CACHE_HOME")) {
    return *folder + "/energon";
  }
  if (const auto folder = variable("HOME")) {
    return *folder + "/.cache/energon";
  }
  return std::nullopt;
}

bool is_index(std::string_view name) { return name.ends_with(".idx"); }
bool is_copy(std::string_view name) { return name.ends_with(".tar"); }

void check_unchanged(const FileSource& file) {
  if (FileSource(file.path()).identity() != file.identity()) {
    throw Error(ErrorCode::kCorruptData, "the shard was changed while it was read",
                {.path = file.path()});
  }
}

bool is_valid_index(const std::string& index_path, const FileSource& tar) {
  try {
    check_archive_end(tar, TarIndex::load(index_path, tar.size()).entries().back());
    return true;
  } catch (const Error&) {
    return false;  // absent, unreadable or stale: in each case, the index is rebuilt
  }
}

bool is_fresh(const std::string& index_path, const FileSource& tar) {
  return has_time_of(index_path, tar.identity()) && is_valid_index(index_path, tar);
}

// Returns false if the index cannot be stored there: the folder is not writable, or the file system
// does not preserve the time that marks the index as fresh.
bool write_index_beside(const std::string& index_path, std::span<const std::uint64_t> entries,
                        const FileIdentity& tar) {
  try {
    remove_abandoned_once(folder_of(index_path), is_index);
    NewFile file(index_path);
    file.append(std::as_bytes(entries));
    file.give_time_of(tar);
    file.replace();
  } catch (const Error&) {
    return false;
  }
  return has_time_of(index_path, tar);
}

void check_not_shrunk(const std::string& index_path, const FileSource& tar,
                      std::span<const std::uint64_t> entries) {
  if (const auto proof = proof_of_shrinking(index_path, tar.size(), entries)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}; if the tar was replaced on purpose, remove '{}'", *proof,
                            printable(index_path)),
                {.path = tar.path()});
  }
}

std::vector<std::uint64_t> offsets_of(const FileSource& tar, const ShardScan& scan) {
  std::vector<std::uint64_t> entries;
  entries.reserve(scan.samples.size() + 1);
  for (const ScannedSample& sample : scan.samples) {
    entries.push_back(sample.offset);
  }
  entries.push_back(scan.end_offset);
  check_unchanged(tar);
  return entries;
}

}  // namespace

std::string default_cache_dir() {
  if (auto folder = find_default_cache_dir()) {
    return std::move(*folder);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "no folder to store indices in: set ENERGON_CACHE_DIR to a writable folder");
}

std::string folder_in_cache(const std::optional<std::string>& cache_dir, std::string_view name) {
  return fmt::format("{}/{}", cache_dir ? *cache_dir : default_cache_dir(), name);
}

std::optional<std::string> find_folder_in_cache(const std::optional<std::string>& cache_dir,
                                                std::string_view name) {
  const auto folder = cache_dir ? cache_dir : find_default_cache_dir();
  return folder ? std::optional(fmt::format("{}/{}", *folder, name)) : std::nullopt;
}

void make_cache_folder(const std::string& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (!fs::is_directory(folder)) {
    throw Error(
        ErrorCode::kIo,
        fmt::format(
            "cannot create the cache folder: {}; set ENERGON_CACHE_DIR to a writable folder",
            error.message()),
        {.path = folder});
  }
}

std::string cache_name(const std::string& path, const FileIdentity& identity) {
  constexpr std::size_t kMaxNameBytes =
      100;  // file names are limited to 255 bytes, and suffixes follow
  const fs::path absolute = fs::absolute(path).lexically_normal();
  Xxh3Stream stream;
  stream.update_field(as_bytes(absolute.native()));
  stream.update(std::as_bytes(std::span(&identity.size_bytes, 1)));
  stream.update(std::as_bytes(std::span(&identity.mtime_ns, 1)));
  return fmt::format("{}-{}", absolute.filename().native().substr(0, kMaxNameBytes),
                     to_hex(stream.digest()));
}

bool is_shard_name(std::string_view name) {
  return name.ends_with(".tar") || compression_of_name(name) != Compression::kNone;
}

std::string ensure_expanded(const std::string& shard_path,
                            const std::optional<std::string>& cache_dir) {
  return compression_of_name(shard_path) == Compression::kNone
             ? shard_path
             : ensure_expanded(FileSource(shard_path), cache_dir);
}

std::string ensure_expanded(const FileSource& shard, const std::optional<std::string>& cache_dir) {
  if (compression_of_name(shard.path()) == Compression::kNone) {
    return shard.path();
  }
  const std::string folder = folder_in_cache(cache_dir, "expanded");
  std::string final_path =
      fmt::format("{}/{}.tar", folder, cache_name(shard.path(), shard.identity()));
  if (path_exists(final_path)) {
    return final_path;
  }
  make_cache_folder(folder);
  remove_abandoned_once(folder, is_copy);
  ExpandTurn turn(final_path);
  constexpr int kAttempts = 3;
  for (int attempt = 1; !path_exists(final_path); ++attempt) {
    NewFile copy(final_path, 0600);
    turn.announce(copy.temporary_path());
    expand(shard, copy.fd());
    check_unchanged(shard);
    try {
      copy.publish_once();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound || attempt == kAttempts) {
        throw;
      }
      // Another process removed the file as abandoned.
    }
  }
  return final_path;
}

std::optional<std::string> proof_of_shrinking(const std::string& old_index_path,
                                              std::uint64_t tar_size,
                                              std::span<const std::uint64_t> entries) {
  const std::vector<std::uint64_t> old = read_old_index(old_index_path, kTarBlock);
  if (old.size() < 2) {
    return std::nullopt;
  }
  if (old.back() > tar_size) {
    return fmt::format(
        "the tar has {} bytes, but its index lists {} samples that end at byte {}: the tar was "
        "truncated after it was indexed",
        tar_size, old.size() - 1, old.back());
  }
  // The last entry of each is an end offset.
  if (entries.empty() || entries.size() > old.size() || entries.back() >= old.back() ||
      !std::equal(entries.begin(), entries.end() - 1, old.begin())) {
    return std::nullopt;
  }
  if (entries.size() == old.size()) {
    return fmt::format(
        "the last of the tar's {} samples ends at byte {}, but at byte {} according to its index: "
        "its end was truncated or overwritten after it was indexed",
        entries.size() - 1, entries.back(), old.back());
  }
  return fmt::format(
      "the tar ends after {} samples, at byte {}, but its index lists {} more: its end was "
      "truncated or overwritten after it was indexed",
      entries.size() - 1, entries.back(), old.size() - entries.size());
}

std::string ensure_indexed(const std::string& shard_path, const std::string& tar_path,
                           const std::optional<std::string>& cache_dir) {
  return index_tar(shard_path, tar_path, cache_dir).index_path;
}

IndexedTar index_tar(const std::string& shard_path, const std::string& tar_path,
                     const std::optional<std::string>& cache_dir, ScanStrictness strictness) {
  const FileSource tar(tar_path);
  const bool is_compressed = tar_path != shard_path;
  const std::string beside = tar_index_path(shard_path);
  if (!is_compressed && is_fresh(beside, tar)) {
    return {.index_path = beside};
  }
  const std::string name = cache_name(tar_path, tar.identity()) + ".tar.idx";
  if (const auto folder = find_folder_in_cache(cache_dir, "index")) {
    std::string cached = fmt::format("{}/{}", *folder, name);
    if (is_valid_index(cached, tar)) {
      return {.index_path = std::move(cached)};
    }
  }
  if (!is_compressed) {
    check_not_shrunk(beside, tar, {});
  }
  ShardScan scan = scan_shard(tar, {.strictness = strictness});
  const std::vector<std::uint64_t> entries = offsets_of(tar, scan);
  IndexedTar result{.index_path = beside, .is_new = true, .warnings = std::move(scan.warnings)};
  if (!is_compressed) {
    check_not_shrunk(beside, tar, entries);
    if (write_index_beside(beside, entries, tar.identity())) {
      return result;
    }
  }
  // Store it in the cache, where the name identifies the version of the tar.
  const std::string folder = folder_in_cache(cache_dir, "index");
  make_cache_folder(folder);
  remove_abandoned_once(folder, is_index);
  result.index_path = fmt::format("{}/{}", folder, name);
  write_tar_index(result.index_path, entries);
  return result;
}

void mark_index_fresh(const std::string& index_path, const FileIdentity& shard) {
  give_time_of(index_path, shard);
}

void check_archive_end(const FileSource& tar, std::uint64_t end_offset) {
  constexpr std::size_t kBlockBytes = 512;
  if (end_offset == tar.size()) {
    return;
  }
  std::array<std::byte, kBlockBytes> block{};
  if (end_offset < tar.size()) {
    const std::uint64_t left = std::min<std::uint64_t>(kBlockBytes, tar.size() - end_offset);
    tar.read_at(end_offset, std::span(block).first(left));
  }
  if (end_offset > tar.size() ||
      std::any_of(block.begin(), block.end(), [](std::byte b) { return b != std::byte{0}; })) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the samples end at byte {} according to the index, but the tar ({} bytes) "
                    "does not end there; the tar or its index was changed or truncated",
                    end_offset, tar.size()),
        {.path = tar.path(), .byte_offset = end_offset});
  }
}

// --- One process at a time expands a shard ---

namespace {

// Bytes that the holder of `lock` has written, or nullopt if unknown.
std::optional<off_t> progress_of(int lock, const std::string& folder) {
  std::array<char, 256> name{};
  const ssize_t size = ::pread(lock, name.data(), name.size(), 0);
  const std::string_view announced(name.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  struct stat status {};
  if (announced.empty() || announced.find('/') != std::string_view::npos ||
      ::stat((folder + "/" + std::string(announced)).c_str(), &status) != 0) {
    return std::nullopt;
  }
  return status.st_size;
}

}  // namespace

ExpandTurn::ExpandTurn(const std::string& copy_path) : path_(copy_path + ".tmp.0000000000000000") {
  constexpr std::chrono::milliseconds kBetweenLooks{20};
  const std::string folder = folder_of(copy_path);
  auto deadline = std::chrono::steady_clock::now() + kExpandStallLimit;
  std::optional<off_t> last;
  while (!path_exists(copy_path) && std::chrono::steady_clock::now() < deadline) {
    UniqueFd lock(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) {
      return;
    }
    const Locked result = try_lock(lock.get());
    if (result == Locked::kUnsupported) {
      ::unlink(path_.c_str());
      return;
    }
    if (result == Locked::kYes) {
      lock_ = std::move(lock);
      if (is_in_place()) {
        return;
      }
      lock_.reset();  // its last holder removed the file
      continue;
    }
    if (const std::optional<off_t> size = progress_of(lock.get(), folder); size != last) {
      last = size;
      deadline = std::chrono::steady_clock::now() + kExpandStallLimit;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

ExpandTurn::~ExpandTurn() {
  if (lock_.valid() && is_in_place()) {
    ::unlink(path_.c_str());
  }
}

void ExpandTurn::announce(const std::string& temporary_path) {
  if (lock_.valid() && ::ftruncate(lock_.get(), 0) == 0 && ::lseek(lock_.get(), 0, SEEK_SET) == 0) {
    // On failure, the others only wait longer.
    try_write_all(lock_.get(), as_bytes(std::filesystem::path(temporary_path).filename().native()));
  }
}

bool ExpandTurn::is_in_place() const {
  struct stat held {};
  struct stat named {};
  return ::fstat(lock_.get(), &held) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace energon
