// Batches of frames spread evenly over each video:
//
//   video DATASET [PART]
//
// Only the frames that are needed are decoded, resized on the way, and written into the batch.
// PART is the name of the video part, mp4 by default.

#include <cstdio>
#include <string>

#include "energon/energon.h"
#include "media/av/av_decoder.h"

using namespace energon;

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: video DATASET [PART]\n");
    return 2;
  }
  try {
    const std::string part = argc == 3 ? argv[2] : "mp4";
    TrainOptions options{.batch_size = 2, .repeat = false};
    options.task_encoder.encode_sample = MapFunction([part](Sample sample, CallContext& context) {
      AvDecoder decoder(sample.bytes(part));
      Sample encoded;
      encoded.set("frames", frames_uniform(decoder, 4, FrameSize{.width = 112, .height = 112},
                                           context.memory())
                                .frames);
      encoded.set("seconds", decoder.video_duration_seconds());
      return encoded;
    });
    options.task_encoder.batch = stack_fields;
    SavableDataLoader loader(train_dataset(argv[1], {}, options),
                             {.worker_config = {.num_workers = 1}});
    while (const auto batch = loader.next()) {
      std::printf("frames: %s, seconds: %s\n", describe(batch->at("frames")).c_str(),
                  describe(batch->at("seconds")).c_str());
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "video: %s\n", error.what());
    return 1;
  }
}
