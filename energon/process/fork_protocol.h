// Frames between the parent and the fork server, over a SEQPACKET socket pair.
//
//   parent                     fork server
//   kSpawn (n) + descriptors ->             a request of payload_bytes follows
//   kChunk (n) …             ->             its payload, in order
//                            <- kSpawned (n) + pidfd, or kSpawnFailed (n) and an Error
//                            <- kExited (n) at any time after kSpawned (n), with the Error that
//                               ended the worker, if any (last_words.h)
//   kStop                    ->             value: milliseconds until workers are killed
//
// n is the number of the request. Errors are encoded by io/error.h. If the payload of a
// kSpawn is incomplete when the next kSpawn arrives, the earlier request is dropped. Both sides are
// the same process image, so the layout is not a stable format.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

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

}  // namespace energon
