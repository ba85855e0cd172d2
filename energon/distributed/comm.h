// Communication between the ranks of a job: the few collectives that adapters and states need.
//
// Every rank makes the same calls in the same order; a call returns when this rank's part is done.
// Bytes arrive unchanged. No call blocks forever: it ends at its timeout, or as soon as it detects
// the death of a rank that it waits for.

#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

struct CommOptions {
  /// Time after which an unfinished call throws Error (kTimeout). It must cover the longest time
  /// that one rank may lag behind another, for example during a validation that only one rank runs.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// Throws Error (kInvalidArgument).
void validate(const CommOptions& options);

/// For one thread at a time. All calls throw Error: kTimeout, kWorkerDied for a rank that is gone,
/// kMismatch if the ranks make different calls, kInvalidArgument for a rank out of range. Messages
/// name the call and the rank as far as known. After an Error the group is out of step: every
/// further call throws the same Error.
class Comm {
 public:
  Comm() = default;
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Returns the bytes that `source` passed, on every rank; bytes passed on other ranks are
  /// ignored.
  virtual std::string broadcast(std::string bytes, int source) = 0;
  /// On `destination`, returns what each rank passed, by rank; an empty vector on other ranks.
  virtual std::vector<std::string> gather(std::string bytes, int destination) = 0;
  /// Returns what each rank passed, by rank, on every rank.
  virtual std::vector<std::string> all_gather(std::string bytes) = 0;
  /// On rank r, returns element r of what `source` passed; parts passed on other ranks are ignored.
  /// Requires: size() elements on `source`.
  virtual std::string scatter(std::vector<std::string> parts, int source) = 0;
  /// Like scatter(), but into the caller's memory: fills `own` on every rank except `source`, which
  /// already has its part. Requires: own.size() is the size of this rank's part.
  virtual void scatter_into(std::span<const ByteView> parts, std::span<std::byte> own,
                            int source) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
};

/// The Comm of a job with one process: every call returns its argument.
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

// Replies: what a rank sends in a collective if its own part may fail, either a result or an Error.
// A failed rank still participates, so that no other rank waits in vain.

std::string success(std::string_view result);
std::string failure(const Error& error);

/// The result in `reply`, which must outlive the result. If `reply` holds an Error, throws it.
std::string_view result_of(std::string_view reply);
/// The same for the reply of `rank`, which the Error names.
std::string_view result_of(std::size_t rank, std::string_view reply);

}  // namespace energon
