// Files of torch.save: arbitrary bytes, or a valid zip around a pickle of arbitrary bytes.

#include <string>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"
#include "tests/media/data/zip_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  std::string encoded(as_text(choices.rest()));
  if (choices.yes()) {
    testing::ZipBuilder zip;
    zip.add("archive/data.pkl", encoded).add("archive/byteorder", "little");
    for (const char* storage : {"archive/data/0", "archive/data/1", "archive/data/2"}) {
      zip.add(storage, std::string(choices.below(97), '\x11'));
    }
    encoded = zip.add("archive/version", "3\n").build();
  }
  return fuzz::try_to_read([&] {
    fuzz::ExactMemory memory;
    fuzz::check_value(decode_torch_file(as_bytes(encoded), fuzz::kFuzzLimits, memory));
  });
}
