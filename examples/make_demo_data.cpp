// Makes a small multimodal dataset; each sample has a JPEG, a caption, metadata and a sound.
//
//   make_demo_data FOLDER [SAMPLES [SHARDS]]      default: 600 samples in 6 tars

// In this order: jpeglib.h needs what stdio.h declares.
// clang-format off
#include <stdio.h>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

namespace {

constexpr int kWidth = 160;
constexpr int kHeight = 120;
constexpr int kSampleRate = 8000;

struct Color {
  std::string_view name;
  int red, green, blue;
};
constexpr std::array kColors = {Color{"red", 220, 40, 40}, Color{"green", 40, 180, 60},
                                Color{"blue", 50, 80, 220}, Color{"yellow", 230, 210, 40},
                                Color{"white", 240, 240, 240}};
constexpr std::array<std::string_view, 3> kShapes = {"circle", "square", "diamond"};

// The image and sound of sample `number`.
struct Scene {
  explicit Scene(int number)
      : color(kColors[static_cast<std::size_t>(number) % kColors.size()]),
        shape(static_cast<std::size_t>(number) % kShapes.size()),
        center_x(30 + number * 37 % 100),
        center_y(30 + number * 23 % 60),
        tone_hz(220 + number * 7 % 660) {}

  bool covers(int x, int y) const {
    const int dx = std::abs(x - center_x);
    const int dy = std::abs(y - center_y);
    constexpr int kRadius = 24;
    return shape == 0   ? dx * dx + dy * dy < kRadius * kRadius
           : shape == 1 ? dx < kRadius && dy < kRadius
                        : dx + dy < kRadius;
  }

  Color color;
  std::size_t shape;
  int center_x, center_y, tone_hz;
};

std::string make_jpeg(const Scene& scene) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &bytes, &size);
  encoder.image_width = kWidth;
  encoder.image_height = kHeight;
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 85, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  std::vector<JSAMPLE> row(3 * kWidth);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const bool is_shape = scene.covers(x, y);
      JSAMPLE* const pixel = row.data() + 3 * x;
      pixel[0] = static_cast<JSAMPLE>(is_shape ? scene.color.red : x);
      pixel[1] = static_cast<JSAMPLE>(is_shape ? scene.color.green : y);
      pixel[2] = static_cast<JSAMPLE>(is_shape ? scene.color.blue : 255 - x);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&encoder, &rows, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string jpeg(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&encoder);
  std::free(bytes);
  return jpeg;
}

void append_little(std::string& text, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> 8 * i);
  }
}

// A quarter of a second of a sine tone, 16 bits, mono.
std::string make_wav(const Scene& scene) {
  constexpr std::uint32_t kDataBytes = kSampleRate / 4 * 2;
  std::string wav = "RIFF";
  append_little(wav, 36 + kDataBytes, 4);
  wav += "WAVEfmt ";
  append_little(wav, 16, 4);
  append_little(wav, 1, 2);  // PCM
  append_little(wav, 1, 2);  // channels
  append_little(wav, kSampleRate, 4);
  append_little(wav, kSampleRate * 2, 4);
  append_little(wav, 2, 2);
  append_little(wav, 16, 2);
  wav += "data";
  append_little(wav, kDataBytes, 4);
  for (std::uint32_t i = 0; i < kDataBytes / 2; ++i) {
    const double phase = 2 * 3.14159265358979 * scene.tone_hz * i / kSampleRate;
    append_little(wav, static_cast<std::uint32_t>(std::lround(12000 * std::sin(phase))), 2);
  }
  return wav;
}

class TarFile {
 public:
  explicit TarFile(const std::string& path) : archive_(archive_write_new(), archive_write_free) {
    archive_write_set_format_ustar(archive_.get());
    check(archive_write_open_filename(archive_.get(), path.c_str()));
  }

  void add(const std::string& name, std::string_view content) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                              archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    check(archive_write_header(archive_.get(), entry.get()));
    if (archive_write_data(archive_.get(), content.data(), content.size()) < 0) {
      check(ARCHIVE_FATAL);
    }
  }

  void close() { check(archive_write_close(archive_.get())); }

 private:
  void check(int result) {
    if (result != ARCHIVE_OK) {
      throw std::runtime_error(archive_error_string(archive_.get()));
    }
  }

  std::unique_ptr<archive, decltype(&archive_write_free)> archive_;
};

void add_sample(TarFile& tar, int number) {
  const Scene scene(number);
  const std::string key = fmt::format("{:06}", number);
  tar.add(key + ".jpg", make_jpeg(scene));
  tar.add(key + ".txt", fmt::format("a {} {} on a blue gradient, with a tone of {} Hz",
                                    scene.color.name, kShapes[scene.shape], scene.tone_hz));
  tar.add(key + ".json",
          fmt::format(R"({{"number": {}, "shape": "{}", "center": [{}, {}], "tone_hz": {}}})",
                      number, kShapes[scene.shape], scene.center_x, scene.center_y, scene.tone_hz));
  tar.add(key + ".wav", make_wav(scene));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: make_demo_data FOLDER [SAMPLES [SHARDS]]\n");
    return 2;
  }
  try {
    const int samples = argc > 2 ? std::stoi(argv[2]) : 600;
    const int shards = argc > 3 ? std::stoi(argv[3]) : 6;
    std::filesystem::create_directories(argv[1]);
    for (int shard = 0; shard < shards; ++shard) {
      TarFile tar(fmt::format("{}/demo-{:03}.tar", argv[1], shard));
      for (int i = samples * shard / shards; i < samples * (shard + 1) / shards; ++i) {
        add_sample(tar, i);
      }
      tar.close();
    }
    fmt::print("{} samples in {} shards: {}\n", samples, shards, argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "make_demo_data: {}\n", error.what());
    return 1;
  }
  return 0;
}
