// The eight orientations of EXIF 2.32 (tag 274, 0x0112) and TIFF 6.0.
//
// Applied to the stored image, 2 mirrors left and right, 3 rotates by 180 degrees, 4 mirrors top
// and bottom, 5 transposes, 6 rotates by 90 degrees clockwise, 7 transposes along the other
// diagonal, 8 rotates by 90 degrees counterclockwise. Internal to media/image.

#pragma once

#include "io/bytes.h"
#include "media/image/image_decoder.h"

namespace energon {

/// Columns become rows: width and height are swapped.
constexpr bool transposes(int orientation) { return orientation >= 5; }
/// The stored columns run from the right (or, transposed, from the bottom).
constexpr bool mirrors_columns(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
/// The stored rows run from the bottom (or, transposed, from the right).
constexpr bool mirrors_rows(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/// The place of a stored image's `box` after the orientation is applied. width and height are those
/// of the stored image.
template <class Number>
BoxOf<Number> oriented_box(BoxOf<Number> box, int orientation, Number width, Number height) {
  if (mirrors_columns(orientation)) {
    box.x = width - box.x - box.width;
  }
  if (mirrors_rows(orientation)) {
    box.y = height - box.y - box.height;
  }
  return transposes(orientation) ? BoxOf<Number>{box.y, box.x, box.height, box.width} : box;
}

/// The inverse: the stored pixels of an oriented image's `box`. width and height are those of the
/// stored image.
template <class Number>
BoxOf<Number> stored_box(BoxOf<Number> box, int orientation, Number width, Number height) {
  if (transposes(orientation)) {
    box = {box.y, box.x, box.height, box.width};
  }
  if (mirrors_columns(orientation)) {
    box.x = width - box.x - box.width;
  }
  if (mirrors_rows(orientation)) {
    box.y = height - box.y - box.height;
  }
  return box;
}

/// The orientation in an EXIF block, which begins with a TIFF header, optionally after "Exif\0\0".
/// 1 if it is absent or damaged.
int exif_orientation(ByteView exif);

}  // namespace energon
