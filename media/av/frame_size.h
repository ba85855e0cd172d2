// The size of video frames.

#pragma once

namespace energon {

/// Width and height in pixels.
struct FrameSize {
  int width = 0;
  int height = 0;

  bool operator==(const FrameSize&) const = default;
};

}  // namespace energon
