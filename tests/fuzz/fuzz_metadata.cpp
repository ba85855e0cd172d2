// Hand-written files: recipes, split files, dataset infos. The first byte selects the kind.

#include <string>

#include "io/dataset/dataset_info.h"
#include "io/dataset/split_config.h"
#include "io/recipe/metadataset.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  if (size == 0) {
    return 0;
  }
  const std::string text(fuzz::text_of(data + 1, size - 1));
  return fuzz::try_to_read([&] {
    switch (data[0] % 5) {
      case 0:
        parse_metadataset(text, "/recipe.yaml");
        break;
      case 1:
        parse_split_yaml(text, "split.yaml");
        break;
      case 2:
        parse_split_json(text, "split.json");
        break;
      case 3:
        parse_info_yaml(text, ".info.yaml");
        break;
      default:
        parse_info_json(text, ".info.json");
    }
  });
}
