// State files of ranks and jobs. Fixes the checksum first; otherwise no code after its check would
// be reached.

#include <cstring>
#include <string>
#include <variant>

#include "energon/checkpoint/job_state.h"
#include "io/bytes.h"
#include "io/hash.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  std::string bytes(fuzz::text_of(data, size));
  if (bytes.size() > sizeof(std::uint64_t)) {
    const std::size_t end = bytes.size() - sizeof(std::uint64_t);
    const std::uint64_t checksum = xxh3_64(as_bytes(std::string_view(bytes).substr(0, end)));
    std::memcpy(bytes.data() + end, &checksum, sizeof checksum);
  }
  return fuzz::try_to_read([&] {
    const SavedState saved = decode_saved_state(bytes);
    if (const auto* job = std::get_if<SavableJobState>(&saved)) {
      fuzz::require(std::get<SavableJobState>(decode_saved_state(encode_job_state(*job))) == *job);
    } else {
      const auto& rank = std::get<SavableDataLoaderState>(saved);
      fuzz::require(decode_loader_state(encode_loader_state(rank)) == rank);
    }
  });
}
