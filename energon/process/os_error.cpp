#include "energon/process/os_error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace energon {

Error os_error(std::string_view operation, int error_number) {
  const auto text = [&](std::string_view advice) {
    return fmt::format("{}: {}; {}", operation, std::system_category().message(error_number),
                       advice);
  };
  switch (error_number) {
    case EMFILE:
      return Error(ErrorCode::kResourceExhausted,
                   text("raise the limit of open files (ulimit -n) or use fewer workers"));
    case ENFILE:
      return Error(ErrorCode::kResourceExhausted,
                   text("the system has no file table entries left (fs.file-max)"));
    case EAGAIN:
      return Error(ErrorCode::kResourceExhausted,
                   text("raise the limit of processes (ulimit -u, or pids.max of the cgroup) or, "
                        "if it is a thread, of address space (ulimit -v)"));
    case ENOMEM:
    case ENOSPC:
      return Error(ErrorCode::kResourceExhausted,
                   text("use fewer workers, a smaller arena_limit_bytes or checkpoint_slot_bytes "
                        "(needed for each logical shard), or raise the limit of memory or of "
                        "address space (ulimit -v)"));
    case ENOSYS:
      return Error(ErrorCode::kUnsupported,
                   text("this needs Linux 5.4 or later, and a sandbox that allows the call"));
    default:
      return io_error(operation, error_number);
  }
}

}  // namespace energon
