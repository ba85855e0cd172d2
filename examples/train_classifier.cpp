// Trains a small classifier on JPEGs, and resumes exactly where it was stopped:
//
//   train_classifier DATASET CHECKPOINT STEPS
//
// The classes are the shapes in the JSON of the demo data. Model, optimizer and the position of the
// loader are saved together in the folder CHECKPOINT after the last step. A second run with more
// STEPS continues from there; its losses equal those of an uninterrupted run.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <torch/torch.h>

#include "energon/energon.h"
#include "energon/torch/tensor.h"
#include "media/data/documents.h"
#include "media/transform/image_transform.h"

using namespace energon;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kClasses = {"circle", "square", "diamond"};
constexpr int kSide = 32;

static std::int64_t class_of(const Sample& sample) {
  Sample json;
  json.fields = std::get<Mapping>(decode_json(sample.bytes("json").view).base());
  const std::string_view shape = json.text("shape");
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i] == shape) {
      return static_cast<std::int64_t>(i);
    }
  }
  throw Error(ErrorCode::kInvalidArgument, "the shape '" + std::string(shape) + "' is not a class");
}

static Sample encode(Sample sample, CallContext& context) {
  static ImageTransform transform(
      {RandomResizedCrop{.width = kSide, .height = kSide, .scale = {0.6, 1.0}},
       RandomHorizontalFlip{}},
      {.format = {.mean = {0.5, 0.5, 0.5, 0}, .stddev = {0.25, 0.25, 0.25, 1}}});
  Sample encoded;
  encoded.set("image", decode_transformed(sample.bytes("jpg").view, transform, context.rng(),
                                          context.memory()));
  encoded.set("label", class_of(sample));
  return encoded;
}

static SavableDataLoader make_loader(const std::string& path) {
  TrainOptions options{.batch_size = 16, .shuffle_buffer_size = 64};
  options.task_encoder.encode_sample = MapFunction(encode);
  options.task_encoder.batch = stack_fields;
  return SavableDataLoader(train_dataset(path, {}, options), {.worker_config = {.num_workers = 2}});
}

static torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  using torch::nn::Conv2d;
  using torch::nn::Conv2dOptions;
  return torch::nn::Sequential(
      Conv2d(Conv2dOptions(3, 16, 3).stride(2).padding(1)), torch::nn::ReLU(),
      Conv2d(Conv2dOptions(16, 32, 3).stride(2).padding(1)), torch::nn::ReLU(),
      torch::nn::Flatten(),
      torch::nn::Linear(32 * (kSide / 4) * (kSide / 4), static_cast<int>(kClasses.size())));
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: train_classifier DATASET CHECKPOINT STEPS\n");
    return 2;
  }
  try {
    const fs::path checkpoint = argv[2];
    const std::int64_t steps = std::atoll(argv[3]);
    SavableDataLoader loader =
        make_loader(argv[1]);  // before torch starts threads, because the loader forks
    torch::set_num_threads(1);
    torch::nn::Sequential model = make_model();
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));
    std::int64_t step = 0;
    if (fs::exists(checkpoint / "loader.state")) {
      torch::load(model, (checkpoint / "model.pt").string());
      torch::load(optimizer, (checkpoint / "optimizer.pt").string());
      const SavableDataLoaderState state =
          read_loader_state((checkpoint / "loader.state").string());
      loader.restore_state_rank(state);
      step = state.batch_index;
      std::printf("goes on after step %lld\n", static_cast<long long>(step));
    }
    while (step < steps) {
      const auto batch = loader.next();  // this stream never ends
      optimizer.zero_grad();
      const torch::Tensor logits = model->forward(to_torch(batch->tensor("image")));
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(logits, to_torch(batch->tensor("label")));
      loss.backward();
      optimizer.step();
      if (++step % 5 == 0) {
        std::printf("step %lld: loss %.6f\n", static_cast<long long>(step), loss.item<double>());
      }
    }
    const fs::path fresh =
        checkpoint.string() + ".new";  // a killed run leaves one complete checkpoint
    fs::create_directories(fresh);
    torch::save(model, (fresh / "model.pt").string());
    torch::save(optimizer, (fresh / "optimizer.pt").string());
    write_loader_state((fresh / "loader.state").string(), loader.save_state_rank());
    fs::remove_all(checkpoint);
    fs::rename(fresh, checkpoint);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_classifier: %s\n", error.what());
    return 1;
  }
}
