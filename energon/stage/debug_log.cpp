#include "energon/stage/debug_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

void replace(std::string& text, std::string_view what, int value) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), std::to_string(value));
  }
}

}  // namespace

DebugLog::DebugLog(std::string_view path, const WorkerConfig& config, std::optional<int> worker)
    : path_(path) {
  if (path_.empty()) {
    return;
  }
  const int number = worker ? *worker + 1 : 0;
  replace(path_, "{worker_id}", config.rank * (config.num_workers + 1) + number);
  replace(path_, "{pid}", ::getpid());
  check_path(path_);
  std::error_code ignored;  // opening the file reports it
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!enabled()) {
    throw io_error("cannot open the debug log", errno, {.path = path_});
  }
  check_can_append(file_.get(), path_);
}

void DebugLog::write(const Config& line) {
  if (!enabled()) {
    return;
  }
  // Keys are bytes. The log is for people, so invalid UTF-8 is replaced.
  const std::string text = line.dump(-1, ' ', false, Config::error_handler_t::replace) + "\n";
  write_all(file_.get(), as_bytes(text), "cannot write the debug log", {.path = path_});
}

}  // namespace energon
