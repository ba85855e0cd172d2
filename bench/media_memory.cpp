// Does the memory of decoding workers stay constant?
//
// Two workers decode and crop JPEG, PNG and WebP of many sizes, a sound and a clip of a video per
// sample, without end; the trainer touches each batch. Private memory, the shared memory that each
// process has touched, and descriptors are sampled a hundred times. Before that, the trainer pauses
// until the workers are as far ahead as allowed, so that arenas have their maximum size. Target:
// the last quarter of the run has at most 1.02 times the memory of the second, and no more
// descriptors.

#include <unistd.h>

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/encoded_images.h"
#include "bench/support/encoded_video.h"
#include "bench/support/machine.h"
#include "bench/support/measure.h"
#include "bench/support/media_files.h"
#include "bench/support/media_run.h"
#include "bench/support/program.h"
#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/transform/image_transform.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

constexpr double kGrowth = 1.02;
constexpr std::int64_t kBatchSize = 16;
constexpr std::int64_t kSide = 112;
constexpr std::int64_t kSamplesOfSound = 8000;
constexpr int kFramesOfClip = 4;
constexpr VideoSpec kShortVideo = {
    .width = 320, .height = 180, .frames = 60, .frames_per_second = 30, .frames_per_key = 30};
constexpr int kLooksInQuarter = 25;
constexpr int kPauses = 10;

// --- Memory of one process over time ---

/// The medians of the first, second, third and last quarter of the values. Requires: at least four.
std::vector<double> quarters_of(const std::vector<double>& values) {
  std::vector<double> medians;
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    const auto at = [&](std::size_t part) {
      return values.begin() + static_cast<std::ptrdiff_t>(values.size() * part / 4);
    };
    medians.push_back(quantile({at(quarter), at(quarter + 1)}, 0.5));
  }
  return medians;
}

/// A process that is sampled repeatedly. Own memory is its heap and stacks, where pages shared with
/// the process it was forked from count in part; shared memory is the shared pages that it has
/// touched, such as arenas.
class MemoryLog {
 public:
  MemoryLog(std::string name, int pid) : name_(std::move(name)), pid_(pid) {}

  /// Takes a sample now. Throws Error (kNotFound) if the process has ended.
  void look();

  /// Adds own memory, shared memory and descriptors over time, with the medians of the four
  /// quarters; and as targets, that the last quarter has at most `growth` times the memory of the
  /// second, and not more descriptors. Requires: look() was called at least four times.
  void report(double growth, Report& report) const;

 private:
  const std::string name_;
  const int pid_;
  std::vector<double> own_bytes_;
  std::vector<double> shared_bytes_;
  std::vector<double> files_;
};

void MemoryLog::look() {
  const auto own = memory_of(pid_, "smaps_rollup", "Pss_Anon:");
  const auto shared = memory_of(pid_, "status", "RssShmem:");
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid_), error);
  if (!own || !shared || error) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot read the memory and files of process {}: has it ended?", pid_));
  }
  own_bytes_.push_back(static_cast<double>(*own));
  shared_bytes_.push_back(static_cast<double>(*shared));
  files_.push_back(static_cast<double>(std::distance(begin(files), end(files))));
}

void MemoryLog::report(double growth, Report& report) const {
  const std::vector<std::pair<const char*, const std::vector<double>*>> kinds = {
      {"own memory", &own_bytes_}, {"shared memory", &shared_bytes_}};
  for (const auto& [kind, values] : kinds) {
    const std::vector<double> quarters = quarters_of(*values);
    const std::string name = fmt::format("{}: {}", name_, kind);
    report.add({.name = name,
                .unit = "B",
                .measurement = {name, *values},
                .more = {{"quarters", quarters}}});
    report.add({.name = fmt::format("{}, last quarter against second", name),
                .unit = "",
                .value = quarters[1] > 0 ? quarters[3] / quarters[1] : 1,
                .target = growth,
                .direction = Target::Direction::kAtMost});
  }
  const std::vector<double> quarters = quarters_of(files_);
  const std::string name = fmt::format("{}: descriptors", name_);
  report.add({.name = name,
              .unit = "files",
              .measurement = {name, files_},
              .more = {{"quarters", quarters}}});
  report.add({.name = fmt::format("{}, last quarter less second", name),
              .unit = "",
              .value = quarters[3] - quarters[1],
              .target = 0,
              .direction = Target::Direction::kAtMost});
}

struct SoakSettings {
  std::int64_t samples = 20'000;
  double seconds = 0;  // if above 0, used instead of `samples`
  std::int64_t stored = 200;
};

/// Samples of all formats; sizes vary.
MediaFiles files_of_all_formats(const std::string& data_folder, std::int64_t count) {
  const auto folder = std::filesystem::path(data_folder) / fmt::format("all-formats-{}", count);
  return {
      {.folder = folder.string(), .parts = {"jpg", "png", "webp", "wav", "mp4"}, .count = count},
      [](std::int64_t number) {
        const auto seed = static_cast<std::uint32_t>(number);
        const int width = 160 + static_cast<int>(number * 37 % 320);
        const int height = 120 + static_cast<int>(number * 53 % 240);
        const std::vector<std::byte> rgb = picture(seed, width, height);
        return std::vector{encode_jpeg(rgb, width, height, 92), encode_png(rgb, width, height),
                           encode_webp(rgb, width, height, 90),
                           encode_wav(seed, kSamplesOfSound + number * 97 % 16'000, 16'000),
                           encode_video(seed, kShortVideo)};
      }};
}

Tensor sound_of(const Sample& sample, CallContext& context) {
  AvDecoder decoder(sample.bytes("wav"));
  const ClipRange range = {.begin = 0, .end = kSamplesOfSound - 1};
  return decoder.audio_clips(std::span(&range, 1), AudioUnit::kSamples, context.memory())[0]
      .value()
      .samples;
}

Tensor clip_of(const Sample& sample, CallContext& context) {
  AvDecoder decoder(sample.bytes("mp4"));
  const std::int64_t places = decoder.video_frame_count() - kFramesOfClip + 1;
  const auto first = static_cast<double>(context.rng().integer(places));
  const ClipRange range = {.begin = first, .end = first + kFramesOfClip - 1};
  return decoder
      .video_clips(std::span(&range, 1), VideoUnit::kFrames,
                   FrameSize{.width = kSide, .height = kSide}, context.memory())[0]
      .value()
      .frames;
}

PipelineFactory decoding_all(const MediaFiles& files) {
  const auto transform = std::make_shared<ImageTransform>(std::vector<ImageStep>{
      RandomResizedCrop{.width = kSide, .height = kSide}, RandomHorizontalFlip{}});
  TrainOptions train;
  train.task_encoder.encode_sample = MapFunction([transform](Sample sample, CallContext& context) {
    Sample encoded;
    for (const char* part : {"jpg", "png", "webp"}) {
      encoded.set(part, decode_transformed(sample.bytes(part).view, *transform, context.rng(),
                                           context.memory()));
    }
    encoded.set("sound", sound_of(sample, context));
    encoded.set("frames", clip_of(sample, context));
    return encoded;
  });
  train.task_encoder.batch = stack_fields;
  train.batch_size = kBatchSize;
  train.shuffle_buffer_size = 1000;
  return train_pipeline(files.open(), std::move(train));
}

/// Takes batches, touches them and counts samples.
class Taker {
 public:
  explicit Taker(SavableDataLoader& loader) : loader_(loader) {}

  /// Throws Error unless the batch has all fields.
  void take_until(std::int64_t samples) {
    while (taken_ < samples) {
      const auto batch = loader_.next();
      for (const char* field : {"jpg", "png", "webp", "sound", "frames"}) {
        if (!batch || batch->tensor(field).shape.at(0) != kBatchSize) {
          throw Error(ErrorCode::kInternal,
                      fmt::format("a batch has no {} samples of '{}'", kBatchSize, field));
        }
        keep(consume(Consumer::kTouches, batch->tensor(field).data.view));
      }
      taken_ += kBatchSize;
    }
  }
  std::int64_t taken() const { return taken_; }

 private:
  SavableDataLoader& loader_;
  std::int64_t taken_ = 0;
};

// Takes `samples` samples in four quarters and samples the processes meanwhile. Returns samples/s.
std::vector<double> take_and_look(Taker& taker, std::int64_t samples, std::deque<MemoryLog>& logs) {
  std::vector<double> rates;
  const std::int64_t begin = taker.taken();
  for (int quarter = 0; quarter < 4; ++quarter) {
    const std::int64_t before = taker.taken();
    const Clock::time_point since = Clock::now();
    for (int look = 1; look <= kLooksInQuarter; ++look) {
      const int looks = quarter * kLooksInQuarter + look;
      taker.take_until(begin + samples * looks / (4 * kLooksInQuarter));
      for (MemoryLog& log : logs) {
        log.look();
      }
    }
    rates.push_back(static_cast<double>(taker.taken() - before) / seconds_since(since));
  }
  return rates;
}

void soak(const CommonOptions& options, const SoakSettings& settings, Report& report) {
  const MediaFiles files = files_of_all_formats(options.data_folder, settings.stored);
  const auto loader = media_loader(decoding_all(files));
  Taker taker(*loader);
  const Clock::time_point begin = Clock::now();
  taker.take_until(settings.stored);  // each sample about once
  const double first_rate = static_cast<double>(taker.taken()) / seconds_since(begin);
  const std::int64_t samples = settings.seconds > 0
                                   ? static_cast<std::int64_t>(settings.seconds * first_rate)
                                   : settings.samples;
  report.setting("samples", samples);
  for (int pause = 0; pause < kPauses; ++pause) {
    wait_until_idle(*loader);
    taker.take_until(taker.taken() + kMediaWorkers * kBatchSize);
  }
  std::deque<MemoryLog> logs;
  logs.emplace_back("trainer", ::getpid());
  for (const int pid : loader->worker_pids()) {
    logs.emplace_back(fmt::format("worker {}", logs.size() - 1), pid);
  }
  const std::string name =
      fmt::format("all formats, {} workers, batch {}", kMediaWorkers, kBatchSize);
  report.add({.name = name,
              .unit = "samples/s",
              .measurement = {name, take_and_look(taker, samples, logs)}});
  for (const MemoryLog& log : logs) {
    log.report(kGrowth, report);
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  SoakSettings settings;
  return run_program(
      argc, argv, "media_memory", "Does the memory of decoding workers stay constant?",
      [&](CLI::App& app) {
        app.add_option("--samples", settings.samples, "Samples to take")
            ->capture_default_str()
            ->check(CLI::Range(100 * kBatchSize, std::int64_t{1} << 50));
        app.add_option("--seconds", settings.seconds,
                       "Instead, as many samples as the warm-up's rate delivers in this time");
        app.add_option("--stored", settings.stored, "Number of distinct samples")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) { soak(options, settings, report); });
}
