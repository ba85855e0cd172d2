// How the ranks of a job talk to each other: the few collectives that adapters and states need.
//
// Every rank makes the same calls in the same order; a call returns when this rank's part is done.
// Bytes go through unchanged. Nobody waits without a way out: a call ends with its timeout, or as
// soon as the death of a rank it waits for is seen.

#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace energon {

struct CommOptions {
  /// A call that is not done after so long ends in an Error (kTimeout). It has to cover the longest
  /// time that one rank may be behind another, such as a validation that only one of them runs.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// Throws Error (kInvalidArgument).
void validate(const CommOptions& options);

/// For one thread at a time. All calls throw Error: kTimeout, kWorkerDied for a rank that is gone,
/// kMismatch if the ranks make different calls, kInvalidArgument for a rank out of range; messages
/// name call and rank as far as they are known. After an Error the group is out of step: every
/// further call throws it again.
class Comm {
 public:
  Comm() = default;
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The bytes that `source` passed, on every rank; the others' are ignored.
  virtual std::string broadcast(std::string bytes, int source) = 0;
  /// What each rank passed, by rank, on `destination`; nothing elsewhere.
  virtual std::vector<std::string> gather(std::string bytes, int destination) = 0;
  /// What each rank passed, by rank, on every rank.
  virtual std::vector<std::string> all_gather(std::string bytes) = 0;
  /// Element r of what `source` passed, on rank r; the others' are ignored. Requires: size()
  /// elements on `source`.
  virtual std::string scatter(std::vector<std::string> parts, int source) = 0;
  /// The same into memory of the caller: `own` is filled on every rank but `source`, which keeps
  /// its part where it is. Requires: own.size() is the size of this rank's part.
  virtual void scatter_into(std::span<const ByteView> parts, std::span<std::byte> own,
                            int source) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
};

/// A job of one process: what goes in comes out.
class SingleProcessComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string broadcast(std::string bytes, int source) override;
  std::vector<std::string> gather(std::string bytes, int destination) override;
  std::vector<std::string> all_gather(std::string bytes) override;
  std::string scatter(std::vector<std::string> parts, int source) override;
  void scatter_into(std::span<const ByteView> parts, std::span<std::byte> own, int source) override;
  void barrier() override {}
};

}  // namespace energon
