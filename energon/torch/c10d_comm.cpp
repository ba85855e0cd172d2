#include "energon/torch/c10d_comm.h"

// Under clang in C++20 mode, ATen's headers of libtorch 1.13 compile only after this one.
#include <ATen/core/ivalue.h>
//
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/version.h>

#include "energon/distributed/message_comm.h"
#include "io/error.h"

namespace energon {
namespace {

// Messages between two ranks keep their order, so one tag is enough.
constexpr int kTag = 0;

// The backend's message, without the stack traces that follow.
std::string first_line(const char* text) {
  const std::string_view whole = text;
  return std::string(whole.substr(0, whole.find('\n')));
}

// Throws Error (kUnsupported) for backends that only move device tensors, or whose messages cannot
// time out.
void check_backend(const std::string& name) {
  constexpr const char* kAdvice =
      ": create a group of the same ranks with the backend gloo for the loader";
  if (name == "nccl" || name == "xccl" || name == "hccl") {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the process group only supports GPU tensors ({}){}", name, kAdvice));
  }
  if (name == "mpi") {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("messages of the process group cannot time out (mpi), so the loader could "
                    "hang{}",
                    kAdvice));
  }
}

// Over a ProcessGroup of torch 1, or a Backend of torch 2.
template <class Group>
class C10dComm final : public MessageComm {
 public:
  C10dComm(c10::intrusive_ptr<Group> group, const CommOptions& options)
      : MessageComm(group->getRank(), group->getSize(), options), group_(std::move(group)) {}

 private:
  void send(int to, ByteView bytes, Deadline deadline) override {
    transfer(to, deadline, [&] {
      // Only read, although tensors have no const view.
      std::vector<at::Tensor> tensors = {
          tensor_over(const_cast<std::byte*>(bytes.data()), bytes.size())};
      return group_->send(tensors, to, kTag);
    });
  }

  void receive(int from, std::span<std::byte> bytes, Deadline deadline) override {
    transfer(from, deadline, [&] {
      std::vector<at::Tensor> tensors = {tensor_over(bytes.data(), bytes.size())};
      return group_->recv(tensors, from, kTag);
    });
  }

  static at::Tensor tensor_over(std::byte* data, std::size_t size) {
    return at::from_blob(data, {static_cast<std::int64_t>(size)}, at::TensorOptions(at::kByte));
  }

  template <class Begin>
  static void transfer(int other, Deadline deadline, const Begin& begin) {
    const auto left = [&] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
    };
    try {
      // Zero would mean no limit. Backends add larger timeouts to the clock, which may overflow.
      constexpr std::chrono::milliseconds kLongest = std::chrono::years(10);
      const auto limit = std::clamp(left(), std::chrono::milliseconds(1), kLongest);
      if (begin()->wait(limit)) {
        return;
      }
    } catch (const std::exception& error) {
      if (left() > std::chrono::milliseconds(0)) {
        throw Error(ErrorCode::kWorkerDied, fmt::format("rank {} is gone or cannot be reached ({})",
                                                        other, first_line(error.what())));
      }
    }
    throw Error(ErrorCode::kTimeout, fmt::format("rank {} did not answer in time", other));
  }

  const c10::intrusive_ptr<Group> group_;
};

template <class Group>
std::unique_ptr<Comm> make_comm(c10::intrusive_ptr<Group> group, const CommOptions& options) {
  if (!group) {
    throw Error(ErrorCode::kInvalidArgument, "there is no process group");
  }
  check_backend(group->getBackendName());
  return std::make_unique<C10dComm<Group>>(std::move(group), options);
}

}  // namespace

#if TORCH_VERSION_MAJOR >= 2

std::unique_ptr<Comm> c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                const CommOptions& options) {
  if (!group) {
    throw Error(ErrorCode::kInvalidArgument, "there is no process group");
  }
  c10::intrusive_ptr<c10d::Backend> backend;
  try {
    backend = group->getBackend(c10::DeviceType::CPU);
  } catch (const std::exception& error) {
    check_backend(group->getBackendName());
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the process group ({}) has no backend for CPU tensors ({}): create a "
                            "group of the same ranks with the backend gloo for the loader",
                            group->getBackendName(), first_line(error.what())));
  }
  return make_comm(std::move(backend), options);
}

std::unique_ptr<Comm> c10d_backend_comm(c10::intrusive_ptr<c10d::Backend> backend,
                                        const CommOptions& options) {
  return make_comm(std::move(backend), options);
}

#else

std::unique_ptr<Comm> c10d_comm(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                const CommOptions& options) {
  return make_comm(std::move(group), options);
}

#endif

}  // namespace energon
