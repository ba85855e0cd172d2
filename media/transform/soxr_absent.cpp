#include "io/error.h"
#include "media/transform/resample_frames.h"

namespace energon {

void resample_frames(std::span<const float>, int, std::int64_t, std::int64_t, std::span<float>,
                     ResampleQuality) {
  throw Error(ErrorCode::kUnsupported, "this build cannot change sample rates (libsoxr-dev)");
}

}  // namespace energon
