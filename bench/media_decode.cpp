// How much of what a bare codec decodes do two workers deliver as tensors?
//
// Pictures of 512 x 384 pixels as JPEG (110 KB), PNG and WebP. The floor is as many threads as
// workers, each of which decodes images in memory into a buffer of its own with nothing but the
// library of the format. The loader reads tars, decodes into shared memory and stacks batches of
// 16. Before anything is timed, each picture that the loader delivers is compared with that of the
// bare codec.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_threads.h"
#include "bench/support/encoded_images.h"
#include "bench/support/program.h"
#include "bench/support/ustar_writer.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/prepare/prepare.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kWidth = 512;
constexpr int kHeight = 384;
constexpr std::size_t kPixelBytes = std::size_t{kWidth} * kHeight * 3;
constexpr int kWorkers = 2;
constexpr std::int64_t kBatchSize = 16;
constexpr int kShards = 4;

/// A format, its bare codec and the modes that the loader is measured in.
struct Format {
  std::string part;
  double target;
  std::function<std::string(std::span<const std::byte> rgb)> encode;
  std::function<void(ByteView encoded, std::span<std::byte> to)> decode;
  std::vector<std::string> modes;  // the target is about the first
};

std::vector<Format> formats() {
  return {
      {"jpg",
       0.97,
       [](auto rgb) { return encode_jpeg(rgb, kWidth, kHeight, 92); },
       bare_jpeg,
       {"rgb8", "torchrgb8", "torchrgb"}},
      {"png", 0.95, [](auto rgb) { return encode_png(rgb, kWidth, kHeight); }, bare_png, {"rgb8"}},
      {"webp",
       0.95,
       [](auto rgb) { return encode_webp(rgb, kWidth, kHeight, 90); },
       bare_webp,
       {"rgb8"}}};
}

class NoProgress final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress&) override {}
};

/// The images of one format, in memory and in prepared tars.
class Images {
 public:
  Images(const Format& format, const std::string& folder, std::int64_t count)
      : path_(fs::path(folder) / fmt::format("images-{}-{}", format.part, count)) {
    for (std::int64_t i = 0; i < count; ++i) {
      encoded_.push_back(format.encode(picture(static_cast<std::uint32_t>(i), kWidth, kHeight)));
    }
    if (!fs::exists(path_ / ".nv-meta" / ".info.json")) {
      write_shards(format.part);
    }
  }

  std::int64_t count() const { return static_cast<std::int64_t>(encoded_.size()); }
  ByteView at(std::int64_t i) const { return as_bytes(encoded_[static_cast<std::size_t>(i)]); }
  std::shared_ptr<const Webdataset> open() const {
    return std::make_shared<const Webdataset>(open_split(path_.string()));
  }

 private:
  void write_shards(const std::string& part) const {
    fs::remove_all(path_);
    fs::create_directories(path_);
    for (int shard = 0; shard < kShards; ++shard) {
      UstarWriter tar((path_ / fmt::format("{:06}.tar", shard)).string());
      for (std::int64_t i = count() * shard / kShards; i < count() * (shard + 1) / kShards; ++i) {
        tar.add(fmt::format("{:08}.{}", i, part), at(i));
      }
      tar.finish();
    }
    NoProgress progress;
    prepare(path_.string(), {}, progress);
  }

  const fs::path path_;
  std::vector<std::string> encoded_;
};

/// Threads with the bare codec; each decodes its part of the images.
double bare_rate(const Format& format, const Images& images) {
  const double seconds = seconds_in_threads(kWorkers, [&](int thread) {
    std::vector<std::byte> pixels(kPixelBytes);
    for (std::int64_t i = thread; i < images.count(); i += kWorkers) {
      format.decode(images.at(i), pixels);
    }
  });
  return static_cast<double>(images.count()) / seconds;
}

std::unique_ptr<SavableDataLoader> make_loader(const Images& images, const std::string& mode,
                                               bool is_endless) {
  TrainOptions train;
  train.task_encoder.decoder = SampleDecoderOptions{.image = mode};
  train.task_encoder.batch = stack_fields;
  train.batch_size = kBatchSize;
  train.repeat = is_endless;
  return std::make_unique<SavableDataLoader>(
      train_pipeline(images.open(), std::move(train)),
      LoaderOptions{.worker_config = {.num_workers = kWorkers}, .prefetch_factor = 2});
}

std::int64_t number_of(std::string_view key) {
  std::int64_t number = -1;
  std::from_chars(key.data(), key.data() + key.size(), number);
  return number;
}

// Throws Error unless the loader delivers each image once, with the pixels of the bare codec.
void verify(const Format& format, const Images& images) {
  const auto loader = make_loader(images, "rgb8", false);
  std::vector<std::byte> expected(kPixelBytes);
  std::int64_t delivered = 0;
  while (const auto batch = loader->next()) {
    const ByteView pixels = batch->tensor(format.part).data.view;
    for (std::size_t i = 0; i < batch->keys.size(); ++i, ++delivered) {
      format.decode(images.at(number_of(batch->keys[i])), expected);
      if (!std::ranges::equal(pixels.subspan(i * kPixelBytes, kPixelBytes), expected)) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("the pixels of {}.{} are not those of the bare codec",
                                batch->keys[i], format.part));
      }
    }
  }
  if (delivered != images.count()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{} of {} images were delivered", delivered, images.count()));
  }
}

/// An endless loader that stays alive between repetitions.
class DecodingRun {
 public:
  DecodingRun(const Images& images, const std::string& mode)
      : loader_(make_loader(images, mode, true)) {}

  double images_per_second(std::int64_t count) {
    take(6 * kBatchSize);  // what was made while others were measured
    const Clock::time_point begin = Clock::now();
    const std::int64_t taken = take(count);
    return static_cast<double>(taken) / seconds_since(begin);
  }

 private:
  std::int64_t take(std::int64_t count) {
    std::int64_t taken = 0;
    while (taken < count) {
      taken += static_cast<std::int64_t>(loader_->next()->keys.size());
    }
    return taken;
  }

  const std::unique_ptr<SavableDataLoader> loader_;
};

void measure(const Format& format, const CommonOptions& options, std::int64_t count,
             Report& report) {
  const Images images(format, options.data_folder, count);
  verify(format, images);
  std::vector<Variant> variants = {
      {fmt::format("{}: bare codec, {} threads", format.part, kWorkers),
       [&] { return bare_rate(format, images); }}};
  for (const std::string& mode : format.modes) {
    const auto run = std::make_shared<DecodingRun>(images, mode);
    variants.push_back({fmt::format("{}: loader, {} workers, batch {}, {}", format.part, kWorkers,
                                    kBatchSize, mode),
                        [run, count] { return run->images_per_second(count); }});
  }
  const std::vector<Measurement> rates = measure_in_turn(variants, options.repetitions);
  for (const Measurement& rate : rates) {
    const Measurement ratios = ratio("", rate, rates[0]);
    report.add({.name = rate.name,
                .unit = "images/s",
                .measurement = rate,
                .more = {{"ratio_to_bare", ratios.median()},
                         {"ratio_min", ratios.min()},
                         {"ratio_max", ratios.max()}}});
  }
  report.add({.name = fmt::format("{}, {}: ratio to the bare codec", format.part, format.modes[0]),
              .unit = "",
              .value = ratio("", rates[1], rates[0]).median(),
              .target = format.target});
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
