// Captioning batches for a vision-language model, decoded in the workers:
//
//   image_text DATASET [MODEL]
//
// The workers draw a random resized crop of each JPEG, decode only that region, and write the
// normalized pixels into the batch; captions stay strings. With MODEL, a SentencePiece file, they
// also tokenize the captions; batches contain the tokens without padding.

#include <cstdio>
#include <string>
#include <utility>

#include "energon/energon.h"
#include "media/tokens/tokenizer.h"
#include "media/transform/image_transform.h"
#include "wrappers/batching/ragged_batch.h"

using namespace energon;

// One image tensor for a model of 64 x 64 pixels: float32 (3, 64, 64).
static ImageTransform image_transform() {
  ImageTransformOptions options;
  options.format = {.mean = {0.481, 0.458, 0.408}, .stddev = {0.269, 0.261, 0.276}};
  return ImageTransform({RandomResizedCrop{.width = 64, .height = 64, .scale = {0.5, 1.0}}},
                        options);
}

static Sample encode(Sample sample, CallContext& context) {
  static ImageTransform transform = image_transform();  // a worker runs one function at a time
  Sample encoded;
  encoded.set("image", decode_transformed(sample.bytes("jpg").view, transform, context.rng(),
                                          context.memory()));
  encoded.set("caption", std::string(sample.text("txt")));
  if (const Value* const tokens = sample.find("tokens")) {
    encoded.set("tokens", *tokens);
  }
  return encoded;
}

static void print_batch(const Sample& batch) {
  std::printf("image: %s\n", describe(batch.at("image")).c_str());
  for (const std::string_view caption : batch.text_list("caption")) {
    std::printf("  %.*s\n", static_cast<int>(caption.size()), caption.data());
  }
  if (batch.find("tokens") == nullptr) {
    return;
  }
  const Ragged tokens = Ragged::from(batch.at("tokens"));
  std::printf("tokens: %s\n", describe(tokens.values).c_str());
  for (std::int64_t i = 0; i < tokens.size(); ++i) {
    std::printf("  %lld tokens from %lld on\n", static_cast<long long>(tokens.length(i)),
                static_cast<long long>(tokens.begin(i)));
  }
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: image_text DATASET [MODEL]\n");
    return 2;
  }
  try {
    TrainOptions options{.batch_size = 8, .shuffle_buffer_size = 32, .repeat = false};
    options.task_encoder.encode_sample = MapFunction(encode);
    options.task_encoder.batch = generic_batch;  // stacks the images, lists the captions
    if (argc == 3) {
      options.task_encoder.tokenizer =
          TokenizeOptions{.tokenizer = open_sentencepiece(argv[2], {.add_end = true})};
      options.task_encoder.batch = ragged_fields({.fields = {"tokens"}});
    }
    SavableDataLoader loader(train_dataset(argv[1], {}, options),
                             {.worker_config = {.num_workers = 2}});
    int batches = 0;
    while (const auto batch = loader.next()) {
      if (batches++ == 0) {
        print_batch(*batch);
      }
    }
    std::printf("%d batches\n", batches);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "image_text: %s\n", error.what());
    return 1;
  }
}
