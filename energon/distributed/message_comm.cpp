#include "energon/distributed/message_comm.h"

#include <utility>

#include <fmt/format.h>

#include "io/byte_codec.h"

namespace energon {
namespace {

constexpr std::uint64_t kLargestMessage = std::uint64_t{1} << 40;

}  // namespace

struct MessageComm::Header {
  std::uint32_t operation = 0;
  std::uint32_t sender = 0;
  std::uint64_t number = 0;
  std::uint64_t size_bytes = 0;

  static std::string_view name(std::uint32_t operation) {
    switch (static_cast<Operation>(operation)) {
      case Operation::kBroadcast:
        return "broadcast";
      case Operation::kGather:
        return "gather";
      case Operation::kScatter:
        return "scatter";
    }
    return "unknown call";
  }
};

MessageComm::MessageComm(int rank, int size, const CommOptions& options)
    : rank_(rank), size_(size), timeout_(options.timeout) {
  validate(options);
  if (size < 1 || rank < 0 || rank >= size) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of {} processes does not exist", rank, size));
  }
}

template <class Result>
Result MessageComm::run(Operation operation, int root,
                        const std::function<Result(Deadline)>& body) {
  if (root < 0 || root >= size_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank {} is not one of the {} ranks of the group", root, size_));
  }
  if (failure_) {
    throw Error(*failure_);
  }
  ++operations_;
  try {
    return body(deadline_after(timeout_));
  } catch (const Error& error) {
    failure_.emplace(error.code(),
                     fmt::format("{} {} rank {} (call {} of this group, on rank {}): {}",
                                 Header::name(static_cast<std::uint32_t>(operation)),
                                 operation == Operation::kGather ? "to" : "from", root, operations_,
                                 rank_, error.message()),
                     error.context());
    throw Error(*failure_);
  }
}

void MessageComm::send_message(int to, Operation operation, std::string_view bytes,
                               Deadline deadline) {
  const Header header{static_cast<std::uint32_t>(operation), static_cast<std::uint32_t>(rank_),
                      operations_, bytes.size()};
  send(to, std::as_bytes(std::span(&header, 1)), deadline);
  if (!bytes.empty()) {
    send(to, as_bytes(bytes), deadline);
  }
}

std::uint64_t MessageComm::receive_header(int from, Operation operation, Deadline deadline) {
  Header header;
  receive(from, std::as_writable_bytes(std::span(&header, 1)), deadline);
  if (header.operation != static_cast<std::uint32_t>(operation) || header.number != operations_ ||
      header.sender != static_cast<std::uint32_t>(from) || header.size_bytes > kLargestMessage) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("rank {} is in call {} of the group, a {}: every rank must make the "
                            "same calls in the same order, and nothing else may use the group",
                            from, header.number, Header::name(header.operation)));
  }
  return header.size_bytes;
}

std::string MessageComm::receive_message(int from, Operation operation, Deadline deadline) {
  std::string bytes(receive_header(from, operation, deadline), '\0');
  if (!bytes.empty()) {
    receive(from, std::as_writable_bytes(std::span(bytes)), deadline);
  }
  return bytes;
}

std::string MessageComm::broadcast(std::string bytes, int source) {
  return run<std::string>(Operation::kBroadcast, source, [&](Deadline deadline) {
    // A binomial tree with the root `source`: clearing the lowest set bit of a place gives its
    // parent.
    const int place = (rank_ - source + size_) % size_;
    const auto rank_at = [&](int other) { return (other + source) % size_; };
    int bit = 1;
    while (bit < size_ && (place & bit) == 0) {
      bit <<= 1;
    }
    if (place != 0) {
      bytes = receive_message(rank_at(place - bit), Operation::kBroadcast, deadline);
    }
    for (bit >>= 1; bit > 0; bit >>= 1) {
      if (place + bit < size_) {
        send_message(rank_at(place + bit), Operation::kBroadcast, bytes, deadline);
      }
    }
    return std::move(bytes);
  });
}

std::vector<std::string> MessageComm::gather(std::string bytes, int destination) {
  return run<std::vector<std::string>>(Operation::kGather, destination, [&](Deadline deadline) {
    std::vector<std::string> all;
    if (rank_ != destination) {
      send_message(destination, Operation::kGather, bytes, deadline);
      return all;
    }
    all.resize(static_cast<std::size_t>(size_));
    for (int from = 0; from < size_; ++from) {
      if (from != rank_) {
        all[static_cast<std::size_t>(from)] = receive_message(from, Operation::kGather, deadline);
      }
    }
    all[static_cast<std::size_t>(rank_)] = std::move(bytes);
    return all;
  });
}

std::vector<std::string> MessageComm::all_gather(std::string bytes) {
  std::vector<std::string> all = gather(std::move(bytes), 0);
  // One broadcast of everything: the sizes, then the bytes.
  ByteWriter writer;
  for (const std::string& part : all) {
    writer.u64(part.size());
  }
  for (const std::string& part : all) {
    writer.raw(part);
  }
  const std::string joined = broadcast(writer.take(), 0);
  if (rank_ == 0) {
    return all;
  }
  ByteReader parts(joined, "the result of all_gather()");
  const auto count = static_cast<std::size_t>(size_);
  ByteReader sizes = parts.part(count * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(parts.raw(sizes.u64()));
  }
  return all;
}

std::string MessageComm::scatter(std::vector<std::string> parts, int source) {
  if (rank_ == source && parts.size() != static_cast<std::size_t>(size_)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("scatter() of {} parts to {} ranks", parts.size(), size_));
  }
  return run<std::string>(Operation::kScatter, source, [&](Deadline deadline) {
    if (rank_ != source) {
      return receive_message(source, Operation::kScatter, deadline);
    }
    for (int to = 0; to < size_; ++to) {
      if (to != rank_) {
        send_message(to, Operation::kScatter, parts[static_cast<std::size_t>(to)], deadline);
      }
    }
    return std::move(parts[static_cast<std::size_t>(rank_)]);
  });
}

void MessageComm::scatter_into(std::span<const ByteView> parts, std::span<std::byte> own,
                               int source) {
  if (rank_ == source && parts.size() != static_cast<std::size_t>(size_)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("scatter_into() of {} parts to {} ranks", parts.size(), size_));
  }
  run<int>(Operation::kScatter, source, [&](Deadline deadline) {
    if (rank_ == source) {
      for (int to = 0; to < size_; ++to) {
        if (to != rank_) {
          send_message(to, Operation::kScatter, as_text(parts[static_cast<std::size_t>(to)]),
                       deadline);
        }
      }
      return 0;
    }
    const std::uint64_t size_bytes = receive_header(source, Operation::kScatter, deadline);
    if (size_bytes != own.size()) {
      throw Error(ErrorCode::kMismatch, fmt::format("rank {} sends {} bytes, expected {}", source,
                                                    size_bytes, own.size()));
    }
    if (!own.empty()) {
      receive(source, own, deadline);
    }
    return 0;
  });
}

void MessageComm::barrier() {
  gather({}, 0);
  broadcast({}, 0);
}

}  // namespace energon
