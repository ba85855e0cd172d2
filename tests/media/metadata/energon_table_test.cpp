// The rows of a dataset of all formats equal those of Energon, except where Energon is wrong.

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "media/metadata/add_media_metadata.h"
#include "tests/media/metadata/media_folder.h"

using energon::MediaMetadataReport;
using energon::read_file;
using energon::testing::media_filters;
using energon::testing::media_rows;
using energon::testing::MediaFolder;
using energon::testing::vector_path;

namespace {

using Rows = std::map<std::string, std::string>;

// data/expected.tsv is made by make_vectors.py with megatron-energon 7.4.1, Pillow 13.0, PyAV 15.1.
Rows energon_rows() {
  Rows rows;
  std::istringstream lines(read_file(vector_path("expected.tsv")));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    rows[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return rows;
}

// Durations cover the samples. Energon takes the time of a packet for a length, and loses the first
// samples if it seeks to them. Pillow does not read a big-endian BigTIFF.
const Rows kOurs = {
    {"both.webm",
     "av\t{\"video_duration\":0.4,\"video_num_frames\":4,\"video_fps\":10.0,\"video_width\":16,"
     "\"video_height\":16,\"audio_duration\":0.216,\"audio_channels\":1,"
     "\"audio_sample_rate\":16000,\"audio_num_samples\":3456}"},
    {"sound.ogg",
     "av\t{\"audio_duration\":0.216,\"audio_channels\":1,\"audio_sample_rate\":16000,"
     "\"audio_num_samples\":3456}"},
    {"tiff-big-mm.tif", "image\t{\"width\":6,\"height\":4,\"format\":\"TIFF\",\"mode\":\"L\"}"},
};

}  // namespace

TEST_CASE("media metadata equals that of Energon", "[media][metadata]") {
  const MediaFolder folder;
  const MediaMetadataReport report = folder.add({});
  Rows expected = energon_rows();
  REQUIRE(expected.size() == 72);
  for (const auto& [name, row] : kOurs) {
    expected[name] = row;
  }
  CHECK(media_rows(folder.path()) == expected);
  CHECK(media_filters(folder.path()) == "1\tEXTENSION\t\n");
  CHECK(report.images == 61);
  CHECK(report.av == 12);
  std::vector<std::string> unreadable;
  for (const auto& part : report.unreadable_named) {
    unreadable.push_back(part.name);
  }
  CHECK(unreadable == std::vector<std::string>{"damaged.png", "empty.jpg", "text.mp4"});
}
