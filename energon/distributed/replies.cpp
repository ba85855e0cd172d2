#include "energon/distributed/replies.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

std::string success(std::string_view result) { return fmt::format("+{}", result); }
std::string failure(const Error& error) { return fmt::format("-{}", encode_error(error)); }

std::string_view result_of(std::string_view reply) {
  if (reply.empty()) {
    throw Error(ErrorCode::kInternal, "an empty reply");
  }
  if (!reply.starts_with('+')) {
    throw decode_error(reply.substr(1));
  }
  return reply.substr(1);
}

std::string_view result_of(std::size_t rank, std::string_view reply) {
  try {
    return result_of(reply);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("rank {}: {}", rank, error.message()), error.context());
  }
}

}  // namespace energon
