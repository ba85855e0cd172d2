#include "energon/distributed/comm.h"

#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

void check_alone(int rank) {
  if (rank != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank {} does not exist in a job of one process", rank));
  }
}

}  // namespace

void validate(const CommOptions& options) {
  if (options.timeout <= std::chrono::milliseconds(0)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("timeout is {} ms, but must be positive", options.timeout.count()));
  }
}

std::string SingleProcessComm::broadcast(std::string bytes, int source) {
  check_alone(source);
  return bytes;
}

std::vector<std::string> SingleProcessComm::gather(std::string bytes, int destination) {
  check_alone(destination);
  return all_gather(std::move(bytes));
}

std::vector<std::string> SingleProcessComm::all_gather(std::string bytes) {
  std::vector<std::string> all;
  all.push_back(std::move(bytes));
  return all;
}

std::string SingleProcessComm::scatter(std::vector<std::string> parts, int source) {
  check_alone(source);
  if (parts.size() != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("scatter() of {} parts to one process", parts.size()));
  }
  return std::move(parts.front());
}

void SingleProcessComm::scatter_into(std::span<const ByteView> /*parts*/,
                                     std::span<std::byte> /*own*/, int source) {
  check_alone(source);
}

// --- Replies ---

std::string success(std::string_view result) { return fmt::format("+{}", result); }
std::string failure(const Error& error) { return fmt::format("-{}", encode_error(error)); }

std::string_view result_of(std::string_view reply) {
  if (reply.empty()) {
    throw Error(ErrorCode::kInternal, "the reply is empty");
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
