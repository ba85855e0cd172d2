// Reads the samples of one tar, in order:    read_shard demo-000.tar

#include <cstdio>
#include <memory>
#include <vector>

#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "io/error.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: read_shard TAR\n");
    return 2;
  }
  try {
    // On the first run, indexes the tar and stores the index beside it.
    const auto dataset = std::make_shared<const energon::Webdataset>(energon::open_split(argv[1]));
    energon::WebdatasetReader reader(dataset);
    energon::HeapBufferPool memory;
    for (std::int64_t i = 0; i < dataset->sample_count(); ++i) {
      std::vector<energon::Sample> samples;
      reader.read({&i, 1}, memory, samples);
      std::printf("%s:", std::string(samples[0].keys[0]).c_str());
      for (const auto& [part, value] : samples[0].fields) {
        std::printf(" %s (%zu bytes)", part.c_str(), samples[0].bytes(part).size());
      }
      std::printf("\n");
    }
  } catch (const energon::Error& error) {
    std::fprintf(stderr, "read_shard: %s\n", error.what());
    return 1;
  }
  return 0;
}
