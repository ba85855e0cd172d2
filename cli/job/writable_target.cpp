#include "cli/job/writable_target.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
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
  // Of a symbolic link what it means, whether that is there or not.
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
