// Frames between the parent and the fork server, over a SEQPACKET socket pair.
//
//   parent                     fork server
//   kSpawn (n) + descriptors ->             a request of payload_bytes follows
//   kChunk (n) …             ->             its payload, in order
//                            <- kSpawned (n) + pidfd, or kSpawnFailed (n) and why
//                            <- kExited (n) at any time after kSpawned (n), with what the worker
//                               threw, if that ended it (last_words.h)
//   kStop                    ->             value: milliseconds until workers are killed
//
// n numbers requests. A kSpawn whose payload is not complete is dropped by the next kSpawn. Both
// sides are the same build, in fact the same process image: the layout is not stable.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/bytes.h"
#include "io/unique_fd.h"

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
  std::uint64_t payload_bytes = 0;  // kSpawn: of all chunks
  std::int32_t worker_id = 0;
  std::int32_t pid = 0;
  std::int32_t value = 0;      // kExited: exit code or signal; kStop: grace
  std::uint32_t end_kind = 0;  // kExited: ProcessEnd::Kind
};

struct ReceivedFrame {
  Frame frame;
  std::vector<std::byte> chunk;
  std::vector<UniqueFd> descriptors;
  bool lost_descriptors = false;  ///< the descriptor limit of this process was reached
};

enum class SocketStatus : std::uint8_t {
  kDone,        ///< sent, or received
  kWouldBlock,  ///< no room, or nothing there
  kGone,        ///< the other side closed
};

/// Two connected ends. Throws Error (kResourceExhausted).
struct SocketPair {
  static SocketPair open();
  UniqueFd parent;
  UniqueFd server;
};

/// Never block. Throw Error (kIo) if the system refuses, kInternal for a frame that is none.
SocketStatus send_frame(int socket, const Frame& frame, ByteView chunk,
                        std::span<const int> descriptors);
SocketStatus receive_frame(int socket, ReceivedFrame& received);

}  // namespace energon
