#include "io/formats/index_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/formats/path_exists.h"
#include "io/formats/tar_index.h"
#include "io/hash.h"
#include "io/tar/compression.h"
#include "io/tar/expand.h"
#include "io/tar/shard_scan.h"
#include "io/unique_fd.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

// A temporary file that one process at a time may fill. It has a fixed name, so that what a killed
// builder leaves is used again instead of piling up; the lock goes with its holder.
class LockedPart {
 public:
  /// Empty if `final_path` has appeared meanwhile: another process has built it.
  static std::optional<LockedPart> acquire(const std::string& final_path) {
    const std::string path = part_path(final_path);
    auto deadline = std::chrono::steady_clock::now() + kExpandStallLimit;
    off_t last_size = -1;
    while (!path_exists(final_path)) {
      UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd.valid()) {
        throw io_error("cannot create file", errno, {.path = path});
      }
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        if (!is_named(fd, path)) {
          continue;  // its last holder has renamed or removed it
        }
        if (path_exists(final_path)) {
          ::unlink(path.c_str());  // made here after the other had renamed its own
          break;
        }
        return LockedPart(std::move(fd), path);
      }
      if (errno != EWOULDBLOCK && errno != EINTR) {
        throw io_error("cannot lock file", errno, {.path = path});
      }
      const auto now = std::chrono::steady_clock::now();
      const off_t size = status_of(fd).st_size;
      if (size != last_size) {
        last_size = size;
        deadline = now + kExpandStallLimit;
      } else if (now > deadline) {
        throw Error(ErrorCode::kTimeout,
                    "another process expands this shard, but has written nothing for minutes",
                    {.path = path});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return std::nullopt;
  }

  /// Removes the part of a process that was killed when `final_path` was already there.
  static void remove_leftover(const std::string& final_path) {
    const std::string path = part_path(final_path);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && is_named(fd, path) &&
        path_exists(final_path)) {
      ::unlink(path.c_str());
    }
  }

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  LockedPart(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  static std::string part_path(const std::string& final_path) { return final_path + ".part"; }

  static struct stat status_of(const UniqueFd& fd) {
    struct stat status {};
    ::fstat(fd.get(), &status);
    return status;
  }

  static bool is_named(const UniqueFd& fd, const std::string& path) {
    struct stat named {};
    return ::stat(path.c_str(), &named) == 0 && named.st_ino == status_of(fd).st_ino;
  }

  UniqueFd fd_;
  std::string path_;
};

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
    return false;  // absent, unreadable or stale: all the same, it is built
  }
}

bool is_fresh(const std::string& index_path, const FileSource& tar) {
  try {
    return FileSource(index_path).identity().mtime_ns == tar.identity().mtime_ns &&
           is_valid_index(index_path, tar);
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::uint64_t> scan_offsets(const FileSource& tar) {
  const ShardScan scan = scan_shard(tar);
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
  if (const auto folder = variable("ENERGON_CACHE_DIR")) {
    return *folder;
  }
  if (const auto folder = variable("XDG_CACHE_HOME")) {
    return *folder + "/energon";
  }
  if (const auto folder = variable("HOME")) {
    return *folder + "/.cache/energon";
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      "there is no place for indices: set ENERGON_CACHE_DIR to a folder that can be written");
}

std::string folder_in_cache(const std::optional<std::string>& cache_dir, std::string_view name) {
  return fmt::format("{}/{}", cache_dir ? *cache_dir : default_cache_dir(), name);
}

void make_cache_folder(const std::string& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (!fs::is_directory(folder)) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot make the cache folder: {}; set ENERGON_CACHE_DIR to a folder "
                            "that can be written",
                            error.message()),
                {.path = folder});
  }
}

std::string cache_name(const std::string& path, const FileIdentity& identity) {
  constexpr std::size_t kMaxNameBytes = 100;  // file names end at 255, and suffixes follow
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
  if (compression_of_name(shard_path) == Compression::kNone) {
    return shard_path;
  }
  const FileSource shard(shard_path);
  const std::string folder = folder_in_cache(cache_dir, "expanded");
  const std::string final_path =
      fmt::format("{}/{}.tar", folder, cache_name(shard_path, shard.identity()));
  if (path_exists(final_path)) {
    LockedPart::remove_leftover(final_path);
    return final_path;
  }
  make_cache_folder(folder);
  const auto part = LockedPart::acquire(final_path);
  if (!part) {
    return final_path;
  }
  try {
    if (::ftruncate(part->fd(), 0) != 0) {
      throw io_error("cannot empty file", errno, {.path = part->path()});
    }
    expand(shard, part->fd());
    check_unchanged(shard);
    if (::fsync(part->fd()) != 0) {
      throw io_error("cannot sync file", errno, {.path = part->path()});
    }
    if (::rename(part->path().c_str(), final_path.c_str()) != 0) {
      throw io_error("cannot rename the expanded copy to its place", errno, {.path = final_path});
    }
  } catch (...) {
    ::unlink(part->path().c_str());
    throw;
  }
  return final_path;
}

std::string ensure_indexed(const std::string& shard_path, const std::string& tar_path,
                           const std::optional<std::string>& cache_dir) {
  const FileSource tar(tar_path);
  const bool is_compressed = tar_path != shard_path;
  const std::string beside = tar_index_path(shard_path);
  if (!is_compressed && is_fresh(beside, tar)) {
    return beside;
  }
  const std::string folder = folder_in_cache(cache_dir, "index");
  const std::string cached =
      fmt::format("{}/{}.tar.idx", folder, cache_name(tar_path, tar.identity()));
  if (is_valid_index(cached, tar)) {
    return cached;
  }
  const std::vector<std::uint64_t> entries = scan_offsets(tar);
  if (!is_compressed) {
    try {
      write_tar_index(beside, entries);
      mark_index_fresh(beside, tar.identity());
      return beside;
    } catch (const Error&) {
      // Read-only, full or gone: the cache is the place for that.
    }
  }
  make_cache_folder(folder);
  write_tar_index(cached, entries);
  return cached;
}

void mark_index_fresh(const std::string& index_path, const FileIdentity& shard) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  timespec time{.tv_sec = shard.mtime_ns / kNanoseconds, .tv_nsec = shard.mtime_ns % kNanoseconds};
  if (time.tv_nsec < 0) {  // before 1970
    time.tv_sec -= 1;
    time.tv_nsec += kNanoseconds;
  }
  const std::array<timespec, 2> times = {time, time};
  ::utimensat(AT_FDCWD, index_path.c_str(), times.data(), 0);
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
        fmt::format("the index says that the samples end at byte {}, but the tar ({} bytes) "
                    "does not end there; it was changed after it was indexed",
                    end_offset, tar.size()),
        {.path = tar.path(), .byte_offset = end_offset});
  }
}

}  // namespace energon
