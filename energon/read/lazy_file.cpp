#include "energon/read/lazy_file.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

class CachedFile final : public LazySource {
 public:
  explicit CachedFile(std::shared_ptr<const LazyFile> file) : file_(std::move(file)) {}

  SharedBytes get() override { return file_->get().bytes; }
  std::string describe() const override {
    return fmt::format("file '{}' of {}", printable(file_->name()), printable(file_->store_id()));
  }

 private:
  const std::shared_ptr<const LazyFile> file_;
};

}  // namespace

LazyBytes lazy_bytes(std::shared_ptr<const LazyFile> file) {
  if (file == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "lazy bytes need a file");
  }
  return LazyBytes(std::make_shared<CachedFile>(std::move(file)));
}

}  // namespace energon
