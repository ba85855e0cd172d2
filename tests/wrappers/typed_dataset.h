// Small prepared datasets with images, JSON and text, for tests of typed samples.

#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "io/json.h"
#include "io/prepare/prepare.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"

namespace energon::testing {

/// A PNG of two pixels, (255, 0, 51) and (0, 102, 255), made by Pillow 13.0.0.
inline std::string small_png() {
  return from_base64(
             "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z2DMkPYfAAiYAphUCtDPAA"
             "AAAElFTkSuQmCC")
      .value();
}

/// Writes and prepares the dataset `name` with `count` samples, numbered from `first`. Each has a
/// part json, {"caption": ["c<number>", "other"], "label": <number>}, an image (png; or jpg, which
/// contains a PNG, if the number is odd), a part txt, "t<number>", and a part bad.json, which is
/// not JSON.
inline void write_captions(const TempDir& folder, const std::string& name, std::int64_t count,
                           const std::string& dataset_yaml, std::int64_t first = 0) {
  TarBuilder tar;
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::string key = numbered_key(i);
    tar.file(key + ".json", fmt::format(R"({{"caption":["c{0}","other"],"label":{0}}})", i))
        .file(key + (i % 2 == 0 ? ".png" : ".jpg"), small_png())
        .file(key + ".txt", fmt::format("t{}", i))
        .file(key + ".bad.json", "{");
  }
  folder.write(name + "/parts/data-0.tar", tar.end().text());
  class Silent final : public ProgressSink {
    void on_progress(const PrepareProgress& /*progress*/) override {}
  } silent;
  prepare(folder.file(name), {}, silent);
  folder.write(name + "/.nv-meta/dataset.yaml", dataset_yaml);
}

/// A dataset.yaml for captions of such a dataset.
inline const std::string kCaptionsYaml =
    "sample_type:\n  __module__: megatron.energon\n  __class__: CaptioningSample\n"
    "field_map:\n  image: png,jpg\n  caption: json[caption][0]\n";

}  // namespace energon::testing
