#include "energon/stage/thread_cpu_time.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "io/file.h"

namespace energon {

std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::optional<std::chrono::nanoseconds> thread_cpu_wait() {
  // "time on the CPU, time waiting for it, time slices", the times in nanoseconds.
  const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> buffer{};
  const ssize_t size = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  if (size <= 0) {
    return std::nullopt;
  }
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(space + 1);
  std::int64_t waited_ns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), waited_ns);
  return error == std::errc() ? std::optional(std::chrono::nanoseconds(waited_ns)) : std::nullopt;
}

}  // namespace energon
