#include "energon/compat/shared_seed.h"

#include "energon/distributed/comm.h"
#include "energon/state/byte_codec.h"

namespace energon {

std::uint32_t shared_seed(Comm& comm, std::uint32_t seed) {
  ByteWriter writer;
  writer.u32(seed);
  const std::string bytes = comm.broadcast(writer.take(), 0);
  ByteReader reader(bytes, "the seed of rank 0");
  return reader.u32();
}

}  // namespace energon
