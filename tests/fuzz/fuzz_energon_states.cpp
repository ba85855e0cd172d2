// Files that Energon's loader saved: pickles, and zips of torch.save().

#include "energon/megatron/energon_state.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  return fuzz::try_to_read([&] {
    for (const EnergonRankState& rank :
         parse_energon_states(as_bytes(fuzz::text_of(data, size)), "x")) {
      fuzz::require(rank.is_start || !rank.workers.empty());
    }
  });
}
