#include "energon/sample/lazy_bytes.h"

#include <utility>

#include "io/error.h"

namespace energon {

LazyBytes::LazyBytes(std::shared_ptr<LazySource> source) : source_(std::move(source)) {
  if (source_ == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "lazy bytes need a source");
  }
}

SharedBytes LazyBytes::get() const {
  if (source_ == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "lazy bytes were moved away and are used afterwards");
  }
  return source_->get();
}

std::string LazyBytes::describe() const {
  return source_ == nullptr ? "lazy bytes that were moved away" : source_->describe();
}

}  // namespace energon
