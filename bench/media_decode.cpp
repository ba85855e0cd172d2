// Do two workers deliver tensors as fast as a bare codec decodes?
//
// Pictures of 512 x 384 pixels as JPEG (80 KB), PNG and WebP. The floor is as many threads as
// workers, each of which decodes images in memory into its own buffer, which stays in its cache,
// using only the library of the format. "Into 64 MiB" is the same with as much memory as batches in
// flight take. The loader reads tars, decodes into shared memory and stacks batches of
// 16. Before timing, each picture from the loader is compared with that of the bare codec.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/encoded_images.h"
#include "bench/support/media_run.h"
#include "bench/support/program.h"
#include "io/error.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

constexpr PictureSize kSize = {.width = 512, .height = 384};
constexpr std::size_t kPixelBytes = std::size_t{kSize.width} * kSize.height * 3;
constexpr std::size_t kManyBuffers = (std::size_t{64} << 20) / kPixelBytes / kMediaWorkers;
constexpr std::int64_t kBatchSize = 16;

/// A format, its bare codec and the loader's image modes to measure.
struct Format {
  std::string part;
  double target;
  std::function<void(ByteView encoded, std::span<std::byte> to)> decode;
  std::vector<std::string> modes;  // the first one has the target
};

std::vector<Format> formats() {
  return {{"jpg", 0.97, bare_jpeg, {"rgb8", "torchrgb8", "torchrgb"}},
          {"png", 0.95, bare_png, {"rgb8"}},
          {"webp", 0.95, bare_webp, {"rgb8"}}};
}

/// Threads with the bare codec; each decodes its share of the images into its buffers in turn.
class BareCodecRun {
 public:
  BareCodecRun(const Format& format, const MediaFiles& images, std::size_t buffers)
      : format_(format),
        images_(images),
        memory_(kMediaWorkers, std::vector<std::byte>(buffers * kPixelBytes)) {}

  double images_per_second() {
    const double seconds = seconds_in_threads(kMediaWorkers, [this](int thread) {
      const std::span<std::byte> memory = memory_[static_cast<std::size_t>(thread)];
      std::size_t place = 0;
      for (std::int64_t i = thread; i < images_.count(); i += kMediaWorkers) {
        format_.decode(images_.at(i), memory.subspan(place, kPixelBytes));
        place = (place + kPixelBytes) % memory.size();
      }
    });
    return static_cast<double>(images_.count()) / seconds;
  }

 private:
  const Format& format_;
  const MediaFiles& images_;
  std::vector<std::vector<std::byte>> memory_;
};

PipelineFactory decoding(const MediaFiles& images, const std::string& mode, bool is_endless) {
  TrainOptions train;
  train.task_encoder.decoder = SampleDecoderOptions{.image = mode};
  train.task_encoder.batch = stack_fields;
  train.batch_size = kBatchSize;
  train.repeat = is_endless;
  return train_pipeline(images.open(), std::move(train));
}

// Throws Error unless the loader delivers each image once, with the pixels of the bare codec.
void verify(const Format& format, const MediaFiles& images) {
  const auto loader = media_loader(decoding(images, "rgb8", false));
  std::vector<std::byte> expected(kPixelBytes);
  std::vector<bool> seen(static_cast<std::size_t>(images.count()));
  while (const auto batch = loader->next()) {
    const ByteView pixels = batch->tensor(format.part).data.view;
    for (std::size_t i = 0; i < batch->keys.size(); ++i) {
      const std::int64_t number = sample_number(batch->keys[i]);
      format.decode(images.at(number), expected);
      if (!std::ranges::equal(pixels.subspan(i * kPixelBytes, kPixelBytes), expected)) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("the pixels of {}.{} differ from those of the bare codec",
                                batch->keys[i], format.part));
      }
      seen.at(static_cast<std::size_t>(number)) = true;
    }
  }
  if (const auto delivered = std::ranges::count(seen, true); delivered != images.count()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{} of {} images were delivered", delivered, images.count()));
  }
}

void measure(const Format& format, const CommonOptions& options, std::int64_t count,
             Report& report) {
  const MediaFiles images = picture_files(options.data_folder, format.part, kSize, count);
  verify(format, images);
  BareCodecRun bare(format, images, 1);
  BareCodecRun bare_in_memory(format, images, kManyBuffers);
  std::vector<Variant> variants = {
      {fmt::format("{}: bare codec, {} threads", format.part, kMediaWorkers),
       [&] { return bare.images_per_second(); }}};
  for (const std::string& mode : format.modes) {
    const auto run = std::make_shared<MediaRun>(decoding(images, mode, true));
    variants.push_back({fmt::format("{}: loader, {} workers, batch {}, {}", format.part,
                                    kMediaWorkers, kBatchSize, mode),
                        [run, count] { return run->samples_per_second(count); }});
  }
  variants.push_back(
      {fmt::format("{}: bare codec, {} threads, into 64 MiB", format.part, kMediaWorkers),
       [&] { return bare_in_memory.images_per_second(); }});
  report_rates(
      measure_in_turn(variants, options.repetitions), "images/s",
      {.name = fmt::format("{}, {}: ratio to the bare codec", format.part, format.modes.front()),
       .at_least = format.target},
      report);
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t count = 1000;
  return run_program(
      argc, argv, "media_decode",
      "How much of what a bare codec decodes do two workers deliver as tensors?",
      [&](CLI::App& app) {
        app.add_option("--images", count, "Images of each format")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("images", count);
        for (const Format& format : formats()) {
          measure(format, options, count, report);
        }
      });
}
