// The loop of the fork server: the process that ForkServer controls.
//
// Also defines the frames between the fork server and its parent, and the pipe through which a
// worker reports the error that ended it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/process/fork.h"
#include "energon/process/fork_server.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {

// Frames between the parent and the fork server, over a SEQPACKET socket pair.
//
//   parent                     fork server
//   kSpawn (n) + descriptors ->             a request of payload_bytes follows
//   kChunk (n) …             ->             its payload, in order
//                            <- kSpawned (n) + pidfd, or kSpawnFailed (n) and an Error
//                            <- kExited (n) at any time after kSpawned (n), with the Error that
//                               ended the worker, if any (ExitReport)
//   kStop                    ->             value: milliseconds until workers are killed
//
// n is the number of the request. Errors are encoded by io/error.h. If the payload of a
// kSpawn is incomplete when the next kSpawn arrives, the earlier request is dropped. Both sides are
// the same process image, so the layout is not a stable format.

enum class FrameKind : std::uint32_t {
  kSpawn = 1,
  kChunk,
  kStop,
  kSpawned,
  kSpawnFailed,
  kExited,
};

inline constexpr std::uint32_t kFrameMagic = 0x4B524F46;  // "FORK"
inline constexpr std::size_t kMaxChunkBytes = std::size_t{32} << 10;
inline constexpr std::size_t kMaxFrameDescriptors = 64;

struct Frame {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::kStop;
  std::uint64_t request = 0;
  std::uint64_t generation = 0;
  std::uint64_t payload_bytes = 0;  // kSpawn: total of all chunks
  std::int32_t worker_id = 0;
  std::int32_t pid = 0;
  std::int32_t value = 0;      // kExited: exit code or signal; kStop: grace in ms
  std::uint32_t end_kind = 0;  // kExited: ProcessEnd::Kind
};

struct ReceivedFrame {
  Frame frame;
  std::vector<std::byte> chunk;
  std::vector<UniqueFd> descriptors;
  bool lost_descriptors = false;  ///< some were lost: this process reached its descriptor limit
};

enum class SocketStatus : std::uint8_t {
  kDone,        ///< sent or received
  kWouldBlock,  ///< no room, or no frame available
  kGone,        ///< the other side closed
};

/// Two connected ends. open() throws Error (kResourceExhausted).
struct SocketPair {
  static SocketPair open();
  UniqueFd parent;
  UniqueFd server;
};

/// Both never block. They throw Error: kIo if the system call fails, kInternal for an invalid
/// frame.
SocketStatus send_frame(int socket, const Frame& frame, ByteView chunk,
                        std::span<const int> descriptors);
SocketStatus receive_frame(int socket, ReceivedFrame& received);

// Sends the error that ended a child to the process that reaps it, through a pipe.
//
// A worker that cannot even open its channel has no other way to report why. The pipe is made
// before the fork, and keeps what was written to it after the child has ended.

/// An encoded Error is cut to this many bytes, which are written to a pipe atomically.
inline constexpr std::size_t kExitReportBytes = 4096;

/// Move-only.
class ExitReport {
 public:
  /// Called before the fork. Throws Error (kResourceExhausted).
  static ExitReport open();

  /// The descriptor that the child must keep.
  int writing_fd() const { return writing_.get(); }

  /// Called in the child: reports why it ends. Never blocks, never throws.
  void say(const std::exception_ptr& why) const noexcept;

  /// Called in the parent, after the fork.
  void close_writing() { writing_.reset(); }
  /// What the child reported: an encoded Error, empty if it reported nothing. Called after its end.
  std::string heard() const;

 private:
  ExitReport(UniqueFd reading, UniqueFd writing)
      : reading_(std::move(reading)), writing_(std::move(writing)) {}

  UniqueFd reading_;
  UniqueFd writing_;
};

/// Runs in the only thread of the fork server. Owns the workers: only this class forks and reaps
/// them, and no worker is left when run() returns.
class ForkServerLoop {
 public:
  /// The descriptors must be among those that the fork kept. `main` and `options` must outlive the
  /// loop.
  ForkServerLoop(const WorkerMain& main, int socket, std::vector<int> parent_descriptors,
                 const ForkServerOptions& options);

  /// Runs until the parent stops it (returns 0) or is gone (returns kExitParentGone).
  int run();

 private:
  struct Worker {
    Frame frame;  // the frame of its request
    ProcessHandle process;
    ExitReport last_words;
  };
  /// A kSpawn whose chunks are still coming.
  struct Request {
    Frame frame;
    std::vector<std::byte> payload;
    std::vector<UniqueFd> descriptors;
  };
  /// kSpawned carries the pidfd of its worker, kSpawnFailed an Error, kExited the last words.
  struct Reply {
    Frame frame;
    int pidfd = UniqueFd::kInvalid;
    std::string message = {};
  };

  void wait();
  bool receive_all();
  void handle(ReceivedFrame received);
  void take(ReceivedFrame received);
  void refuse(Frame frame, const Error& error);
  void spawn();
  int run_worker(Request& request, const ExitReport& last_words);
  void reap_ended();
  void flush();
  void kill_all();

  const WorkerMain& main_;
  const int socket_;
  const ForkServerOptions& options_;
  const ProcessHandle self_;
  const ParentWatch watch_;

  std::map<std::uint64_t, Worker> workers_;  // by request
  std::optional<Request> pending_;
  std::deque<Reply> replies_;  // not sent yet
  bool stopping_ = false;
  Deadline kill_at_ = kNever;
};

}  // namespace energon
