#include "energon/loader/pipeline_failure.h"

#include <new>

#include <fmt/format.h>

namespace energon {

Error pipeline_failure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kResourceExhausted, "the pipeline failed: out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::kUserFunction, fmt::format("the pipeline failed: {}", error.what()));
  } catch (...) {
    return Error(ErrorCode::kUserFunction,
                 "the pipeline threw something that is no std::exception");
  }
}

}  // namespace energon
