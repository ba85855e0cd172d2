#include "energon/process/shared_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <fmt/format.h>

#include "energon/process/os_error.h"
#include "io/concurrency.h"

namespace energon {
namespace {

namespace bi = boost::interprocess;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 47;

/// A descriptor in the form that mapped_region takes.
class MappableFd {
 public:
  explicit MappableFd(int fd) : handle_{fd, false} {}
  bi::mapping_handle_t get_mapping_handle() const { return handle_; }

 private:
  bi::mapping_handle_t handle_;
};

bi::mapped_region map_memfd(int fd, std::uint64_t size_bytes) {
  try {
    bi::mapped_region region(MappableFd(fd), bi::read_write, 0,
                             static_cast<std::size_t>(size_bytes));
    // Applies to this mapping only, so each process sets it. A refusal only makes dumps larger.
    ::madvise(region.get_address(), region.get_size(), MADV_DONTDUMP);
    return region;
  } catch (const bi::interprocess_exception& error) {
    throw os_error(fmt::format("cannot map {} bytes of shared memory", size_bytes),
                   error.get_native_error());
  }
}

std::uint64_t checked_size(std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kMaxBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shared memory of {} bytes: expected a size from 1 to {}", size_bytes,
                            kMaxBytes));
  }
  return align_up(size_bytes, page_bytes());
}

/// ftruncate() beyond the limit would be a SIGXFSZ, not an error.
void check_file_size_limit(std::uint64_t size_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      size_bytes > limit.rlim_cur) {
    throw Error(
        ErrorCode::kResourceExhausted,
        fmt::format("shared memory needs {} bytes (sparse), but the file size limit of this "
                    "process is {} bytes; raise it (ulimit -f unlimited) or lower "
                    "arena_limit_bytes",
                    size_bytes, static_cast<std::uint64_t>(limit.rlim_cur)));
  }
}

// Neither has a destructor: memory may be released after the end of main().
Mutex list_mutex;
SharedMemory* first_listed ENERGON_GUARDED_BY(list_mutex) = nullptr;

// Keeps a child from inheriting a mutex that another thread held. Not analyzed: fork handlers hold
// the mutex across the fork.
void lock_list() ENERGON_NO_THREAD_SAFETY_ANALYSIS { list_mutex.lock(); }
void unlock_list() ENERGON_NO_THREAD_SAFETY_ANALYSIS { list_mutex.unlock(); }

// Kept ranges that are at most this far apart stay one mapping, together with the gap. The system
// limits the number of mappings (vm.max_map_count), and address space is cheaper.
constexpr std::uint64_t kSmallGap = std::uint64_t{16} << 20;

/// [begin, end) of the memory, in whole pages, and how many kept ranges need it.
struct Piece {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t users = 0;
};

Piece pages_of(const ByteRange& range, std::uint64_t memory_bytes) {
  const std::uint64_t page = page_bytes();
  const std::uint64_t end = std::min(align_up(range.end(), page), memory_bytes);
  return {.begin = range.offset / page * page, .end = end, .users = 1};
}

}  // namespace

/// The mapped part of the memory: all of it by Boost, or pieces after keep_only().
struct SharedMemory::Mapping {
  explicit Mapping(bi::mapped_region region) : all(std::move(region)) {}
  ~Mapping() {
    if (is_whole) {
      all.~mapped_region();
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // A mapped_region cannot release parts of itself, so its destructor is not run once there are
  // pieces.
  union {
    bi::mapped_region all;
  };
  bool is_whole = true;
  bool punches = false;       // whether to punch pages when they are released
  std::vector<Piece> pieces;  // by offset
};

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

SharedMemory::SharedMemory(UniqueFd memfd, std::unique_ptr<Mapping> mapping)
    : memfd_(std::move(memfd)),
      mapping_(std::move(mapping)),
      data_(static_cast<std::byte*>(mapping_->all.get_address())),
      size_(mapping_->all.get_size()) {}

SharedMemory::~SharedMemory() {
  const MutexLock lock(list_mutex);
  for (const Piece& piece : mapping_->pieces) {
    ::munmap(data_ + piece.begin, piece.end - piece.begin);
  }
  if (link_ != nullptr) {
    *link_ = next_;
    if (next_ != nullptr) {
      next_->link_ = link_;
    }
  }
}

void SharedMemory::list_for_children() {
  static const int registered = ::pthread_atfork(lock_list, unlock_list, unlock_list);
  static_cast<void>(registered);
  const MutexLock lock(list_mutex);
  if (link_ != nullptr) {
    return;
  }
  next_ = first_listed;
  if (next_ != nullptr) {
    next_->link_ = &next_;
  }
  link_ = &first_listed;
  first_listed = this;
}

void SharedMemory::abandon_inherited() {
  const MutexLock lock(list_mutex);
  for (SharedMemory* memory = first_listed; memory != nullptr; memory = memory->next_) {
    const auto give_up = [memory](std::uint64_t begin, std::uint64_t end) {
      // Maps over the mapping, because its owner will unmap these addresses. If the system refuses,
      // the pages merely stay.
      [[maybe_unused]] void* const mapped =
          ::mmap(memory->data_ + begin, end - begin, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    };
    if (memory->mapping_->is_whole) {
      give_up(0, memory->size_);
    }
    for (const Piece& piece : memory->mapping_->pieces) {
      give_up(piece.begin, piece.end);
    }
  }
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::uint64_t size_bytes) {
  const std::uint64_t size = checked_size(size_bytes);
  UniqueFd memfd(::memfd_create("energon", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid()) {
    if (errno == ENOSYS || errno == EPERM) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("cannot make shared memory: memfd_create() is refused ({}); allow it "
                              "in the sandbox (seccomp), or use no workers (num_workers 0)",
                              std::system_category().message(errno)));
    }
    throw os_error("cannot make shared memory", errno);
  }
  check_file_size_limit(size);
  if (::ftruncate(memfd.get(), static_cast<off_t>(size)) != 0) {
    throw os_error(fmt::format("cannot size shared memory to {} bytes", size), errno);
  }
  if (::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw os_error("cannot seal shared memory", errno);
  }
  auto mapping = std::make_unique<Mapping>(map_memfd(memfd.get(), size));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(memfd), std::move(mapping)));
}

std::shared_ptr<SharedMemory> SharedMemory::attach(UniqueFd memfd) {
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw Error(ErrorCode::kInvalidArgument,
                "the descriptor is not shared memory of this library: expected a sealed memfd");
  }
  struct stat status {};
  if (::fstat(memfd.get(), &status) != 0) {
    throw os_error("cannot stat shared memory", errno);
  }
  const std::uint64_t size = checked_size(static_cast<std::uint64_t>(status.st_size));
  auto mapping = std::make_unique<Mapping>(map_memfd(memfd.get(), size));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(memfd), std::move(mapping)));
}

bool SharedMemory::punch(std::uint64_t offset, std::uint64_t size) {
  if (offset > size_ || size > size_ - offset) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot punch [{}, +{}) of {} bytes", offset, size, size_));
  }
  const std::uint64_t page = page_bytes();
  const std::uint64_t begin = align_up(offset, page);
  const std::uint64_t end = (offset + size) / page * page;
  // MADV_REMOVE frees the pages of the file that is mapped.
  return begin >= end || ::madvise(data_ + begin, end - begin, MADV_REMOVE) == 0;
}

void SharedMemory::keep_only(std::span<const ByteRange> kept, bool punches) {
  std::vector<Piece> wanted;
  wanted.reserve(kept.size() + 1);
  for (const ByteRange& range : kept) {
    wanted.push_back(pages_of(range, size_));
  }
  std::ranges::sort(wanted, {}, &Piece::begin);
  wanted.push_back({.begin = size_, .end = size_});

  const MutexLock lock(list_mutex);
  std::vector<Piece>& pieces = mapping_->pieces;
  pieces.reserve(wanted.size());
  std::uint64_t mapped_from = 0;  // everything before is settled
  for (const Piece& next : wanted) {
    const std::uint64_t gap = next.begin > mapped_from ? next.begin - mapped_from : 0;
    const bool is_last = next.users == 0;
    const bool is_joined = !pieces.empty() && !is_last && gap <= kSmallGap;
    if (punches && gap > 0) {
      ::madvise(data_ + mapped_from, gap, MADV_REMOVE);  // while it is mapped
    }
    // Refused if there are too many mappings; the gap then stays part of the piece.
    if (is_joined || (gap > 0 && ::munmap(data_ + mapped_from, gap) != 0)) {
      if (pieces.empty()) {
        pieces.push_back({});
      }
      pieces.back().end = std::max(pieces.back().end, next.end);
      pieces.back().users += next.users;
    } else if (!is_last) {
      pieces.push_back(next);
    }
    mapped_from = std::max(mapped_from, next.end);
  }
  mapping_->is_whole = false;
  mapping_->punches = punches;
  memfd_.reset();
}

void SharedMemory::release(const ByteRange& kept) {
  const Piece pages = pages_of(kept, size_);
  const MutexLock lock(list_mutex);
  if (mapping_->punches) {
    ::madvise(data_ + pages.begin, pages.end - pages.begin, MADV_REMOVE);
  }
  std::vector<Piece>& pieces = mapping_->pieces;
  auto piece = std::ranges::upper_bound(pieces, pages.begin, {}, &Piece::begin);
  if (piece == pieces.begin()) {
    return;
  }
  --piece;
  --piece->users;
  if (piece->users == 0) {
    ::munmap(data_ + piece->begin, piece->end - piece->begin);
    pieces.erase(piece);
  }
}

SharedRange shared_range(std::shared_ptr<SharedMemory> memory, std::uint64_t offset,
                         std::uint64_t size) {
  if (offset > memory->size() || size > memory->size() - offset) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("[{}, +{}) is not inside shared memory of {} bytes", offset, size,
                            memory->size()));
  }
  return {std::move(memory), offset, size};
}

namespace {

// Half of what 48-bit addresses leave to a process; the rest is for everything else.
constexpr std::uint64_t kAddressable = std::uint64_t{1} << 46;

std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * page_bytes();
}

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;
}

}  // namespace

AddressSpace AddressSpace::now() {
  const std::uint64_t limit = limit_of(RLIMIT_AS);
  const std::uint64_t file_limit = limit_of(RLIMIT_FSIZE);
  const std::uint64_t mapped = mapped_bytes();
  return {.left_bytes = std::min(limit > mapped ? limit - mapped : 0, kAddressable),
          .largest_file_bytes = std::min(file_limit, kAddressable)};
}

std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes()
                   : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace energon
