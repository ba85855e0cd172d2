// Do two workers deliver normalized random crops of JPEGs as fast as bare libjpeg-turbo and
// libswscale?
//
// Pictures of 512 x 384 pixels (80 KB) and of 1024 x 768, most of which can be decoded at half
// their size. A random region of each (0.08 to 1 of its area) becomes a tensor (3, 224, 224): only
// the needed blocks are decoded, at the smallest sufficient scale, then resized with antialiasing
// and normalized. The floor is as many threads as workers that call libjpeg-turbo and libswscale on
// files in memory, normalize in a plain loop, and write into their own batch. "Bare kernels" are
// such threads with our own resize and normalization, which shows the loader's overhead. The loader
// reads tars and stacks batches of 64 in shared memory. All draw the same regions, whose edges the
// floor rounds to whole pixels. Before timing, each tensor of the loader must equal that of the
// kernels, and each tensor of the floor must be close to the kernels' result for the same whole
// pixels.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_crop.h"
#include "bench/support/bare_read.h"
#include "bench/support/encoded_images.h"
#include "bench/support/media_run.h"
#include "bench/support/program.h"
#include "io/error.h"
#include "media/transform/geometry.h"
#include "media/transform/image_transform.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

constexpr std::int64_t kSide = 224;
constexpr std::int64_t kBatchSize = 64;
constexpr double kTarget = 0.9;
constexpr double kMostLevelsOff = 0.5;  // of 0 to 255, on average over a tensor of the floor

OutputFormat output_format(DType dtype) {
  return {.dtype = dtype, .mean = {0.485, 0.456, 0.406, 0}, .stddev = {0.229, 0.224, 0.225, 1}};
}

std::size_t tensor_size(DType dtype) { return std::size_t{3} * kSide * kSide * size_of(dtype); }

// Random source of both, so that they decode the same regions.
CallRng rng_of(std::int64_t number) { return CallRng(static_cast<std::uint32_t>(number)); }

PipelineFactory cropping(const MediaFiles& images, DType dtype, bool is_endless) {
  const auto transform = std::make_shared<ImageTransform>(
      std::vector<ImageStep>{RandomResizedCrop{.width = kSide, .height = kSide}},
      ImageTransformOptions{.format = output_format(dtype)});
  TrainOptions train;
  train.task_encoder.encode_sample = MapFunction([transform](Sample sample, CallContext& context) {
    CallRng rng = rng_of(sample_number(sample.keys.front()));
    Sample encoded;
    encoded.set("image",
                decode_transformed(sample.bytes("jpg").view, *transform, rng, context.memory()));
    return encoded;
  });
  train.task_encoder.batch = stack_fields;
  train.batch_size = kBatchSize;
  train.repeat = is_endless;
  return train_pipeline(images.open(), std::move(train));
}

struct CropSettings {
  std::int64_t images = 2000;  // a quarter of them are large
  bool is_loader_only = false;
  bool is_large = false;
};

/// Pictures of one size.
struct Pictures {
  PictureSize size;
  MediaFiles files;

  std::string name() const { return fmt::format("{} x {}", size.width, size.height); }
};

Pictures pictures_of(const std::string& data_folder, bool is_large, const CropSettings& settings) {
  const PictureSize size = is_large ? PictureSize{.width = 1024, .height = 768} : PictureSize{};
  const std::int64_t count =
      is_large ? std::max<std::int64_t>(settings.images / 4, 1) : settings.images;
  return {.size = size, .files = picture_files(data_folder, "jpg", size, count)};
}

/// Threads without a loader; each makes its share of the tensors and writes them into its batch in
/// turn.
class BareCropRun {
 public:
  BareCropRun(const Pictures& pictures, DType dtype, CropKernels kernels)
      : images_(pictures.files),
        tensor_bytes_(tensor_size(dtype)),
        batches_(kMediaWorkers, std::vector<std::byte>(kBatchSize * tensor_bytes_)) {
    for (int i = 0; i < kMediaWorkers; ++i) {
      croppers_.emplace_back(kSide, output_format(dtype), kernels);
    }
    for (std::int64_t i = 0; i < images_.count(); ++i) {
      CallRng rng = rng_of(i);
      const PixelBox crop = random_resized_crop_box(rng, pictures.size.width, pictures.size.height);
      crops_.push_back(kernels == CropKernels::kForeign ? whole_pixels(crop, kSide) : crop);
    }
  }

  const PixelBox& crop(std::int64_t number) const {
    return crops_[static_cast<std::size_t>(number)];
  }

  /// The tensor of a region of one image; valid until the next call.
  ByteView tensor(std::int64_t number, const PixelBox& crop) {
    const std::span<std::byte> to = std::span(batches_[0]).first(tensor_bytes_);
    croppers_[0].run(images_.at(number), crop, to);
    return to;
  }

  double images_per_second() {
    const double seconds = seconds_in_threads(kMediaWorkers, [this](int thread) {
      const auto own = static_cast<std::size_t>(thread);
      std::size_t place = 0;
      for (std::int64_t i = thread; i < images_.count(); i += kMediaWorkers) {
        croppers_[own].run(images_.at(i), crop(i),
                           std::span(batches_[own]).subspan(place, tensor_bytes_));
        place = (place + tensor_bytes_) % batches_[own].size();
      }
    });
    return static_cast<double>(images_.count()) / seconds;
  }

 private:
  const MediaFiles& images_;
  const std::size_t tensor_bytes_;
  std::vector<PixelBox> crops_;
  std::deque<BareCrop> croppers_;
  std::vector<std::vector<std::byte>> batches_;
};

// Throws Error unless the loader delivers each image once, with the values of the bare kernels.
void verify(const Pictures& pictures, DType dtype) {
  const MediaFiles& images = pictures.files;
  BareCropRun bare(pictures, dtype, CropKernels::kOwn);
  const auto loader = media_loader(cropping(images, dtype, false));
  std::vector<bool> seen(static_cast<std::size_t>(images.count()));
  while (const auto batch = loader->next()) {
    const ByteView tensors = batch->tensor("image").data.view;
    for (std::size_t i = 0; i < batch->keys.size(); ++i) {
      const std::int64_t number = sample_number(batch->keys[i]);
      const ByteView expected = bare.tensor(number, bare.crop(number));
      if (!std::ranges::equal(tensors.subspan(i * expected.size(), expected.size()), expected)) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("the {} tensor of image {} differs from that of the bare kernels",
                                to_string(dtype), number));
      }
      seen.at(static_cast<std::size_t>(number)) = true;
    }
  }
  if (const auto delivered = std::ranges::count(seen, true); delivered != images.count()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{} of {} images were delivered", delivered, images.count()));
  }
}

float number_at(ByteView tensor, std::size_t index, DType dtype) {
  if (dtype == DType::kFloat32) {
    float number = 0;
    std::memcpy(&number, tensor.data() + index * sizeof(number), sizeof(number));
    return number;
  }
  std::uint16_t upper = 0;  // bfloat16: the upper bits of a float32
  std::memcpy(&upper, tensor.data() + index * sizeof(upper), sizeof(upper));
  return std::bit_cast<float>(std::uint32_t{upper} << 16);
}

// Mean difference of two tensors, in levels of 0 to 255.
double levels_between(ByteView a, ByteView b, DType dtype) {
  constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
  double levels = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double sum = 0;
    for (std::size_t i = channel * kPixels; i < (channel + 1) * kPixels; ++i) {
      sum += std::abs(number_at(a, i, dtype) - number_at(b, i, dtype));
    }
    levels += sum * output_format(dtype).stddev[channel] * 255;
  }
  return levels / (3 * kPixels);
}

// Throws Error if a tensor of the floor differs from the bare kernels' result for the same pixels:
// a floor that does less would not be a valid floor. Returns the mean difference.
double verify_floor(const Pictures& pictures, DType dtype) {
  BareCropRun floor(pictures, dtype, CropKernels::kForeign);
  BareCropRun own(pictures, dtype, CropKernels::kOwn);
  double sum = 0;
  for (std::int64_t i = 0; i < pictures.files.count(); ++i) {
    const double levels_off =
        levels_between(floor.tensor(i, floor.crop(i)), own.tensor(i, floor.crop(i)), dtype);
    if (!(levels_off <= kMostLevelsOff)) {
      throw Error(
          ErrorCode::kInternal,
          fmt::format(
              "the {} tensor of image {} by libswscale is {} levels off, more than the limit of {}",
              to_string(dtype), i, levels_off, kMostLevelsOff));
    }
    sum += levels_off;
  }
  return sum / static_cast<double>(pictures.files.count());
}

Variant loader_variant(const Pictures& pictures, DType dtype) {
  const auto run = std::make_shared<MediaRun>(cropping(pictures.files, dtype, true));
  return {fmt::format("{}: loader, {} workers, batch {}, {}", pictures.name(), kMediaWorkers,
                      kBatchSize, to_string(dtype)),
          [run, count = pictures.files.count()] { return run->samples_per_second(count); }};
}

void measure(const Pictures& pictures, DType dtype, int repetitions, Report& report) {
  verify(pictures, dtype);
  const double levels_off = verify_floor(pictures, dtype);
  const std::string kind = fmt::format("{} {}", pictures.name(), to_string(dtype));
  report.setting(kind + ": levels off", std::round(levels_off * 100) / 100);
  BareCropRun floor(pictures, dtype, CropKernels::kForeign);
  BareCropRun own(pictures, dtype, CropKernels::kOwn);
  const auto bare_name = [&](const char* what) {
    return fmt::format("{}: {}, {} threads, {}", pictures.name(), what, kMediaWorkers,
                       to_string(dtype));
  };
  const std::vector<Variant> variants = {
      {bare_name("libjpeg-turbo and libswscale"), [&] { return floor.images_per_second(); }},
      loader_variant(pictures, dtype),
      {bare_name("bare kernels"), [&] { return own.images_per_second(); }}};
  report_rates(measure_in_turn(variants, repetitions), "images/s",
               {.name = fmt::format("{}, {}: ratio to libjpeg-turbo and libswscale",
                                    pictures.name(), to_string(dtype)),
                .at_least = kTarget},
               report);
}

// The settings for the script that compares with another loader.
void measure_loader(const Pictures& pictures, int repetitions, Report& report) {
  verify(pictures, DType::kFloat32);
  report.setting("folder", pictures.files.folder());
  for (Measurement& rate :
       measure_in_turn({loader_variant(pictures, DType::kFloat32)}, repetitions)) {
    report.add({.name = rate.name, .unit = "images/s", .measurement = std::move(rate)});
  }
}

void measure_all(const CommonOptions& options, const CropSettings& settings, Report& report) {
  report.setting("images", settings.images);
  if (settings.is_loader_only) {
    measure_loader(pictures_of(options.data_folder, settings.is_large, settings),
                   options.repetitions, report);
    return;
  }
  const Pictures small = pictures_of(options.data_folder, false, settings);
  measure(small, DType::kFloat32, options.repetitions, report);
  measure(small, DType::kBFloat16, options.repetitions, report);
  const Pictures large = pictures_of(options.data_folder, true, settings);
  measure(large, DType::kFloat32, options.repetitions, report);
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  CropSettings settings;
  return run_program(
      argc, argv, "media_crops",
      "How much of what libjpeg-turbo and libswscale make of JPEGs do two workers deliver as "
      "random crops?",
      [&](CLI::App& app) {
        app.add_option("--images", settings.images,
                       "Number of images of 512 x 384; a quarter as many of 1024 x 768")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_flag("--loader-only", settings.is_loader_only, "Only the loader, with float32");
        app.add_flag("--large", settings.is_large, "With --loader-only: images of 1024 x 768");
      },
      [&](const CommonOptions& options, Report& report) {
        measure_all(options, settings, report);
      });
}
