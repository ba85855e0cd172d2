#include "cli/job/save_parts.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/show/output.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
    throw Error(ErrorCode::kInvalidArgument,
                "--output must name a folder for a whole sample; for one part ask for KEY.part",
                {.path = folder});
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw io_error("cannot make the folder", error.value(), {.path = folder});
  }
}

}  // namespace

void save_bytes(const std::string& path, ByteView bytes) {
  if (path == "-") {
    output().write(as_text(bytes));
  } else {
    write_file_atomically(path, bytes);
  }
}

void save_part(const std::string& folder, std::string_view part, ByteView bytes) {
  if (!is_file_name(part)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the part '{}' has no name for a file; get it alone: KEY.part with --output FILE",
            printable(part)));
  }
  std::filesystem::path path(folder);
  if (!path.has_filename()) {
    path = path.parent_path();
  }
  make_folder(path.string());
  write_file_atomically((path / std::string(part)).string(), bytes);
}

}  // namespace energon::cli
