#include "energon/process/last_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "energon/process/os_error.h"
#include "io/error.h"

namespace energon {

LastWords LastWords::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void LastWords::say(const std::exception_ptr& why) const noexcept {
  try {
    const std::string words =
        encode_error(to_error(why, "its main function", ErrorCode::kInternal), kLastWordsBytes);
    while (::write(writing_.get(), words.data(), words.size()) < 0 && errno == EINTR) {
    }
  } catch (...) {  // no memory for the words: the exit code must do
  }
}

std::string LastWords::heard() const {
  std::string words(kLastWordsBytes, '\0');
  ssize_t count = 0;
  while ((count = ::read(reading_.get(), words.data(), words.size())) < 0 && errno == EINTR) {
  }
  words.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return words;
}

}  // namespace energon
