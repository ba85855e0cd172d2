// Do two workers deliver video clips as fast as bare FFmpeg?
//
// Clips of 16 frames from random places of MP4s of 10 s, 640 x 360 pixels, with a key frame every 2
// s, at full size and resized to 224 x 224. A floor is as many threads as workers, each of which
// opens a file in memory, seeks, decodes and converts with FFmpeg's libraries alone, into its own
// buffers; it knows the times of all frames in advance. There are three: libswscale's exact
// conversion, which the loader uses; the same without the flags for exactness; and one into
// interleaved pixels, which gives neighbors the same chroma. The target uses the fastest floor
// whose levels of 0 to 255 are off by at most 0.5 on average. The loader reads tars, decodes into
// shared memory and stacks batches of 2. All take the same clips. Before anything is timed, each
// frame of the loader is compared with that of the exact floor.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_clip.h"
#include "bench/support/bare_read.h"
#include "bench/support/encoded_video.h"
#include "bench/support/media_files.h"
#include "bench/support/media_run.h"
#include "bench/support/program.h"
#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "io/file.h"
#include "media/av/av_decoder.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::bench {
namespace {

constexpr int kClipFrames = 16;
constexpr std::int64_t kBatchSize = 2;
constexpr double kTarget = 0.95;
constexpr double kMostLevelsOff = 0.5;       // on average, for a valid floor
constexpr std::int64_t kComparedClips = 32;  // for the inexact floors
constexpr VideoSpec kVideo;
constexpr FrameSize kSmall = {.width = 224, .height = 224};

struct VideoSettings {
  std::int64_t clips = 256;
  std::int64_t videos = 8;
  std::vector<std::string> files;  // used instead of generated videos
};

/// Samples that take turns with the videos.
MediaFiles video_files(const std::string& data_folder, const VideoSettings& settings) {
  const std::filesystem::path folder = data_folder;
  const auto samples = [&](const std::string& name, const std::vector<std::string>& videos) {
    return MediaFiles(
        {.folder = (folder / name).string(), .parts = {"mp4"}, .count = settings.clips},
        [&](std::int64_t number) {
          return std::vector{videos[static_cast<std::size_t>(number) % videos.size()]};
        });
  };
  std::vector<std::string> videos;
  if (!settings.files.empty()) {
    for (const std::string& path : settings.files) {
      videos.emplace_back(read_file(path));
    }
    std::filesystem::remove_all(folder / "videos-given");
    return samples("videos-given", videos);
  }
  const std::string name =
      fmt::format("videos-{}-{}-{}", video_encoder(), settings.videos, settings.clips);
  if (!std::filesystem::exists(folder / name / ".nv-meta")) {
    for (std::int64_t i = 0; i < settings.videos; ++i) {
      videos.push_back(encode_video(static_cast<std::uint32_t>(i), kVideo));
    }
  }
  return samples(name, videos);
}

// Random draws of both, so that they decode the same clips.
std::int64_t first_frame(std::int64_t number, std::int64_t frames) {
  if (frames < kClipFrames) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a video has {} frames, fewer than a clip of {}", frames, kClipFrames));
  }
  return CallRng(static_cast<std::uint32_t>(number)).integer(frames - kClipFrames + 1);
}

PipelineFactory clipping(const MediaFiles& videos, std::optional<FrameSize> size, bool is_endless) {
  TrainOptions train;
  train.task_encoder.encode_sample = MapFunction([size](Sample sample, CallContext& context) {
    AvDecoder decoder(sample.bytes("mp4"));
    const auto first = static_cast<double>(
        first_frame(sample_number(sample.keys.front()), decoder.video_frame_count()));
    const ClipRange range = {.begin = first, .end = first + kClipFrames - 1};
    Sample encoded;
    encoded.set(
        "frames",
        decoder.video_clips(std::span(&range, 1), VideoUnit::kFrames, size, context.memory())[0]
            .value()
            .frames);
    return encoded;
  });
  train.task_encoder.batch = stack_fields;
  train.batch_size = kBatchSize;
  train.repeat = is_endless;
  return train_pipeline(videos.open(), std::move(train));
}

// Sum of the level differences of a clip.
std::int64_t difference(ByteView clip, ByteView exact, bool is_packed) {
  const std::size_t pixels = exact.size() / 3 / kClipFrames;
  std::int64_t sum = 0;
  for (std::size_t frame = 0; frame < kClipFrames; ++frame) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        const std::size_t planar = (frame * 3 + channel) * pixels + pixel;
        const std::size_t place = is_packed ? (frame * pixels + pixel) * 3 + channel : planar;
        sum += std::abs(std::to_integer<int>(clip[place]) - std::to_integer<int>(exact[planar]));
      }
    }
  }
  return sum;
}

/// Threads without a loader; each makes its share of the clips and writes them into its batch in
/// turn.
class BareClipRun {
 public:
  BareClipRun(const MediaFiles& videos, std::optional<FrameSize> size, ClipPixels pixels)
      : videos_(videos), pixels_(pixels) {
    const FrameSize shown = size.value_or(FrameSize{kVideo.width, kVideo.height});
    clip_bytes_ = std::size_t{3} * kClipFrames * static_cast<std::size_t>(shown.width) *
                  static_cast<std::size_t>(shown.height);
    for (int i = 0; i < kMediaWorkers; ++i) {
      clippers_.emplace_back(kClipFrames, size, pixels);
      batches_.push_back(heap_memory().allocate(kBatchSize * clip_bytes_));
    }
    for (std::int64_t i = 0; i < videos.count(); ++i) {
      const std::vector<std::int64_t> times = frame_times(videos.at(i));
      const std::int64_t first = first_frame(i, std::ssize(times));
      first_times_.push_back(times[static_cast<std::size_t>(first)]);
    }
  }

  /// Valid until the next call.
  ByteView clip(std::int64_t number) {
    const std::span<std::byte> to = batches_[0].bytes.first(clip_bytes_);
    clippers_[0].run(videos_.at(number), first_times_[static_cast<std::size_t>(number)], to);
    return to;
  }

  /// Mean difference of levels from those of `exact`, over some clips.
  double levels_off(BareClipRun& exact) {
    const std::int64_t clips = std::min(videos_.count(), kComparedClips);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < clips; ++i) {
      sum += difference(clip(i), exact.clip(i), pixels_ == ClipPixels::kPacked);
    }
    return static_cast<double>(sum) /
           static_cast<double>(clips * static_cast<std::int64_t>(clip_bytes_));
  }

  double clips_per_second() {
    const double seconds = seconds_in_threads(kMediaWorkers, [this](int thread) {
      const auto own = static_cast<std::size_t>(thread);
      std::size_t place = 0;
      for (std::int64_t i = thread; i < videos_.count(); i += kMediaWorkers) {
        clippers_[own].run(videos_.at(i), first_times_[static_cast<std::size_t>(i)],
                           batches_[own].bytes.subspan(place, clip_bytes_));
        place = (place + clip_bytes_) % batches_[own].bytes.size();
      }
    });
    return static_cast<double>(videos_.count()) / seconds;
  }

 private:
  const MediaFiles& videos_;
  const ClipPixels pixels_;
  std::size_t clip_bytes_ = 0;
  std::vector<std::int64_t> first_times_;
  std::deque<BareClip> clippers_;
  std::vector<Buffer> batches_;
};

// Throws Error unless the loader delivers each clip once, with the pixels of the exact floor.
void verify(const MediaFiles& videos, std::optional<FrameSize> size) {
  const auto loader = media_loader(clipping(videos, size, false));
  BareClipRun bare(videos, size, ClipPixels::kExact);
  std::vector<bool> seen(static_cast<std::size_t>(videos.count()));
  while (const auto batch = loader->next()) {
    const ByteView clips = batch->tensor("frames").data.view;
    for (std::size_t i = 0; i < batch->keys.size(); ++i) {
      const std::int64_t number = sample_number(batch->keys[i]);
      const ByteView expected = bare.clip(number);
      const auto clip = clips.subspan(i * expected.size(), expected.size());
      if (const auto [differs, end] = std::ranges::mismatch(clip, expected);
          differs != clip.end()) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("frame {} of clip {} differs from bare FFmpeg's",
                                (differs - clip.begin()) * kClipFrames / std::ssize(clip), number));
      }
      seen.at(static_cast<std::size_t>(number)) = true;
    }
  }
  if (const auto delivered = std::ranges::count(seen, true); delivered != videos.count()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("{} of {} clips were delivered", delivered, videos.count()));
  }
}

void measure(const MediaFiles& videos, std::optional<FrameSize> size, int repetitions,
             Report& report) {
  verify(videos, size);
  const FrameSize shown = size.value_or(FrameSize{kVideo.width, kVideo.height});
  const std::string kind = fmt::format("{} x {}", shown.width, shown.height);
  BareClipRun exact(videos, size, ClipPixels::kExact);
  BareClipRun planar(videos, size, ClipPixels::kPlanar);
  BareClipRun packed(videos, size, ClipPixels::kPacked);
  const double planar_off = planar.levels_off(exact);
  const double packed_off = packed.levels_off(exact);
  report.setting(kind + " inexact: levels off", std::round(planar_off * 100) / 100);
  report.setting(kind + " packed: levels off", std::round(packed_off * 100) / 100);
  const auto run = std::make_shared<MediaRun>(clipping(videos, size, true));
  const std::string bare = fmt::format("{}: bare FFmpeg, {} threads", kind, kMediaWorkers);
  const std::vector<Variant> variants = {
      {bare, [&] { return exact.clips_per_second(); }},
      {fmt::format("{}: loader, {} workers, batch {}", kind, kMediaWorkers, kBatchSize),
       [&] { return run->samples_per_second(videos.count()); }},
      {bare + ", inexact", [&] { return planar.clips_per_second(); }},
      {bare + ", packed, not split into planes", [&] { return packed.clips_per_second(); }}};
  std::vector<Measurement> rates = measure_in_turn(variants, repetitions);
  // report_rates() takes the first as the floor.
  const auto offer_floor = [&rates](Measurement& rate, double off) {
    if (off <= kMostLevelsOff && rate.median() > rates[0].median()) {
      std::swap(rates[0], rate);
    }
  };
  offer_floor(rates[2], planar_off);
  offer_floor(rates[3], packed_off);
  report_rates(rates, "clips/s",
               {.name = fmt::format("{}: ratio to the fastest bare FFmpeg with these pixels", kind),
                .at_least = kTarget},
               report);
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  VideoSettings settings;
  return run_program(
      argc, argv, "media_video",
      "How many video clips do two workers deliver, compared with bare FFmpeg?",
      [&](CLI::App& app) {
        app.add_option("--clips", settings.clips, "Clips in each repetition")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--videos", settings.videos, "Number of videos to generate")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
        app.add_option("--files", settings.files, "Videos to use instead; resized only")
            ->check(CLI::ExistingFile);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("clips", settings.clips);
        report.setting("encoder", settings.files.empty() ? video_encoder() : "files");
        const MediaFiles videos = video_files(options.data_folder, settings);
        if (settings.files.empty()) {
          measure(videos, std::nullopt, options.repetitions, report);
        }
        measure(videos, kSmall, options.repetitions, report);
      });
}
