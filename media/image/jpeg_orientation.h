// The orientation in the Exif segment (APP1) of a JPEG. Internal to media/image.

#pragma once

#include "io/bytes.h"

namespace energon {

/// Walks the segments in front of the pixels. 1 if none tells an orientation or they are damaged.
int jpeg_orientation(ByteView encoded);

}  // namespace energon
