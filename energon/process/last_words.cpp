#include "energon/process/last_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "energon/process/os_error.h"

namespace energon {

std::string encode_last_words(ErrorCode code, std::string_view text) {
  std::string bytes(1, static_cast<char>(code));
  bytes += text.substr(0, kLastWordsBytes - 1);
  return bytes;
}

std::optional<Error> decode_last_words(std::string_view bytes) {
  if (bytes.empty()) {
    return std::nullopt;
  }
  return Error(static_cast<ErrorCode>(bytes.front()), std::string(bytes.substr(1)));
}

LastWords LastWords::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void LastWords::say(const std::exception_ptr& why) const noexcept {
  std::string words;
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    words = encode_last_words(error.code(), error.what());
  } catch (const std::exception& error) {
    words = encode_last_words(ErrorCode::kInternal, error.what());
  } catch (...) {
    words = encode_last_words(ErrorCode::kInternal, "something that is no std::exception");
  }
  while (::write(writing_.get(), words.data(), words.size()) < 0 && errno == EINTR) {
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
