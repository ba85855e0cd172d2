#include "energon/process/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"
#include "tests/support/refused_call.h"
#include "tests/support/skip.h"

using energon::Error;
using energon::ErrorCode;
using energon::SharedMemory;
using energon::UniqueFd;
using namespace energon::testing;

namespace {

bool is_mapped(std::byte* address) {
  unsigned char resident = 0;
  return ::mincore(address, 1, &resident) == 0;
}

void* map_page(std::byte* address) {
  return ::mmap(address, energon::page_bytes(), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

}  // namespace

TEST_CASE("two mappings show the same bytes", "[process][shared_memory]") {
  const auto first = SharedMemory::create(100000);
  const auto second = SharedMemory::attach(UniqueFd(::fcntl(first->fd(), F_DUPFD_CLOEXEC, 0)));
  CHECK(first->size() == energon::align_up(100000, energon::page_bytes()));
  CHECK(second->size() == first->size());
  first->data()[99999] = std::byte{7};
  CHECK(second->data()[99999] == std::byte{7});
}

TEST_CASE("punched pages read as zeros, their neighbors stay", "[process][shared_memory]") {
  const auto memory = SharedMemory::create(1 << 20);
  std::memset(memory->data(), 1, memory->size());
  const std::uint64_t page = energon::page_bytes();
  CHECK(memory->punch(page, 2 * page + 100));
  CHECK(memory->data()[page - 1] == std::byte{1});
  CHECK(memory->data()[page] == std::byte{0});
  CHECK(memory->data()[3 * page - 1] == std::byte{0});
  CHECK(memory->data()[3 * page] == std::byte{1});
  CHECK_THROWS_AS(memory->punch(page, 1 << 20), Error);
}

TEST_CASE("core dumps exclude the memory, in each process that maps it",
          "[process][shared_memory]") {
  const auto first = SharedMemory::create(1 << 20);
  const auto second = SharedMemory::attach(UniqueFd(::fcntl(first->fd(), F_DUPFD_CLOEXEC, 0)));
  std::ifstream maps("/proc/self/smaps");
  int left_out = 0;
  int mappings = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw-s ") != std::string::npos) {
      is_ours = line.find("memfd:energon") != std::string::npos;
      mappings += is_ours ? 1 : 0;
    } else if (is_ours && line.rfind("VmFlags:", 0) == 0) {
      left_out += line.find(" dd") != std::string::npos ? 1 : 0;
      is_ours = false;
    }
  }
  CHECK(mappings == 2);
  CHECK(left_out == 2);
}

TEST_CASE_METHOD(ProcessFixture, "a sandbox without memfd_create is an error that names it",
                 "[process][shared_memory][fork]") {
  for (const int refusal : {ENOSYS, EPERM}) {
    CAPTURE(refusal);
    const ChildResult result = run_in_child([refusal] {
      if (!refuse_system_call(SYS_memfd_create, refusal)) {
        return 77;
      }
      try {
        SharedMemory::create(1 << 20);
      } catch (const Error& error) {
        const std::string text = error.what();
        return error.code() == ErrorCode::kUnsupported &&
                       text.find("memfd_create") != std::string::npos &&
                       text.find("seccomp") != std::string::npos
                   ? 0
                   : 1;
      }
      return 2;
    });
    if (result.exit_code == 77) {
      return skip_case("not permitted to filter system calls");
    }
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("memory of a tebibyte is only address space", "[process][shared_memory][fork]") {
  const auto memory = SharedMemory::create(std::uint64_t{1} << 40);
  memory->data()[memory->size() - 1] = std::byte{1};
  CHECK(memory->data()[memory->size() - 1] == std::byte{1});
}

TEST_CASE("memory kept in parts frees the rest of its addresses", "[process][shared_memory]") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::uint64_t page = energon::page_bytes();
  auto memory = SharedMemory::create(8 * kGiB);
  std::byte* const data = memory->data();
  const std::vector<energon::ByteRange> kept{{.offset = 5 * kGiB, .size = 3 * page},
                                             {.offset = kGiB, .size = 100},
                                             {.offset = kGiB + 10 * page, .size = page},
                                             {.offset = 8 * kGiB - page, .size = page}};
  for (const energon::ByteRange& range : kept) {
    std::memset(data + range.offset, 7, range.size);
  }
  memory->keep_only(kept, true);
  CHECK(memory->fd() == -1);
  for (const energon::ByteRange& range : kept) {
    CAPTURE(range.offset);
    CHECK(data[range.offset] == std::byte{7});
    CHECK(data[range.end() - 1] == std::byte{7});
  }
  for (const std::uint64_t free :
       {std::uint64_t{0}, kGiB - page, 2 * kGiB, 5 * kGiB + 3 * page, 8 * kGiB - 2 * page}) {
    CAPTURE(free);
    CHECK_FALSE(is_mapped(data + free));
  }
  CHECK(is_mapped(data + kGiB + 5 * page));  // a small gap
  memory->release(kept[1]);
  CHECK(data[kept[2].offset] == std::byte{7});
  memory->release(kept[2]);
  CHECK_FALSE(is_mapped(data + kGiB));
  memory->release(kept[0]);
  CHECK_FALSE(is_mapped(data + kept[0].offset));
  // A mapping that was created in a gap stays.
  const void* const other = map_page(data + 2 * kGiB);
  REQUIRE(other == data + 2 * kGiB);
  memory.reset();
  CHECK(is_mapped(data + 2 * kGiB));
  CHECK_FALSE(is_mapped(data + kept[3].offset));
  ::munmap(data + 2 * kGiB, page);
}

TEST_CASE_METHOD(ProcessFixture, "children drop the rest of memory kept in parts",
                 "[process][shared_memory][fork]") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const auto memory = SharedMemory::create(4 * kGiB);
  memory->list_for_children();
  const std::vector<energon::ByteRange> kept{{.offset = kGiB, .size = energon::page_bytes()}};
  memory->data()[kGiB] = std::byte{7};
  memory->keep_only(kept, true);
  std::byte* const other = memory->data() + 2 * kGiB;
  REQUIRE(map_page(other) == other);
  *other = std::byte{9};
  const ChildResult child = run_in_child([&] {
    SharedMemory::abandon_inherited();
    return *other == std::byte{9} ? 0 : 1;
  });
  CHECK(child.exit_code == 0);
  CHECK(memory->data()[kGiB] == std::byte{7});
  ::munmap(other, energon::page_bytes());
}

TEST_CASE("nobody can truncate the memory", "[process][shared_memory]") {
  const auto memory = SharedMemory::create(1 << 16);
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory->fd());
  const UniqueFd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(other.valid());
  CHECK(::ftruncate(other.get(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(other.get(), 1 << 20) == -1);
  CHECK(errno == EPERM);
}

TEST_CASE("a descriptor that is not sealed memory is refused", "[process][shared_memory]") {
  CHECK_THROWS_AS(SharedMemory::attach(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))), Error);
}

TEST_CASE_METHOD(ProcessFixture, "a file size limit is an error, not a SIGXFSZ",
                 "[process][shared_memory][fork]") {
  const ChildResult result = run_in_child([] {
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      SharedMemory::create(2 << 20);
    } catch (const Error& error) {
      const std::string text = error.what();
      return error.code() == ErrorCode::kResourceExhausted &&
                     text.find("ulimit -f") != std::string::npos
                 ? 0
                 : 1;
    }
    return 2;
  });
  CHECK(result.exit_code == 0);
}
