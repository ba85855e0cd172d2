#include "media/transform/kernels.h"

// Vectors of unknown size cannot be in arrays and structs.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "media/transform/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "media/transform/color_kernels-inl.h"
#include "media/transform/mel_kernels-inl.h"
#include "media/transform/normalize_kernels-inl.h"
#include "media/transform/resize_kernels-inl.h"

#if HWY_ONCE
namespace energon::kernels {

HWY_EXPORT(resize_rows_simd);
HWY_EXPORT(blend_rows_simd);
HWY_EXPORT(planar_floats_simd);
HWY_EXPORT(planar_bfloats_simd);
HWY_EXPORT(planar_levels_simd);
HWY_EXPORT(scale_levels_simd);
HWY_EXPORT(interleaved_floats_simd);
HWY_EXPORT(interleaved_bfloats_simd);
HWY_EXPORT(gray_of_rgb_simd);
HWY_EXPORT(saturate_rgb_simd);
HWY_EXPORT(turn_hue_rgb_simd);
HWY_EXPORT(mel_powers_simd);
HWY_EXPORT(weighted_samples_simd);

void resize_rows(const std::array<const std::uint8_t*, 4>& rows, int channels,
                 const FilterTable& table, std::int64_t width,
                 const std::array<std::uint8_t*, 4>& to) {
  HWY_DYNAMIC_DISPATCH(resize_rows_simd)(rows, channels, table, width, to);
}

void blend_rows(const std::uint8_t* first, std::int64_t row_bytes, std::int32_t count,
                const std::int16_t* packed, std::int64_t bytes, std::uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(blend_rows_simd)(first, row_bytes, count, packed, bytes, to);
}

void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored, const std::array<float*, 4>& to) {
  HWY_DYNAMIC_DISPATCH(planar_floats_simd)(row, width, channels, scales, mirrored, to);
}

void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored,
                      const std::array<std::uint16_t*, 4>& to) {
  HWY_DYNAMIC_DISPATCH(planar_bfloats_simd)(row, width, channels, scales, mirrored, to);
}

void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored,
                      const std::array<std::uint8_t*, 4>& to) {
  HWY_DYNAMIC_DISPATCH(planar_levels_simd)(row, width, channels, scales, mirrored, to);
}

void scale_levels(std::uint8_t* levels, std::int64_t count, std::int32_t factor,
                  std::int32_t offset) {
  HWY_DYNAMIC_DISPATCH(scale_levels_simd)(levels, count, factor, offset);
}

void normalize_interleaved(const std::uint8_t* row, std::int64_t width, int channels,
                           const LevelScales& scales, float* to) {
  HWY_DYNAMIC_DISPATCH(interleaved_floats_simd)(row, width, channels, scales, to);
}

void normalize_interleaved(const std::uint8_t* row, std::int64_t width, int channels,
                           const LevelScales& scales, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(interleaved_bfloats_simd)(row, width, channels, scales, to);
}

void gray_of_rgb(const std::uint8_t* rgb, std::int64_t count, std::uint8_t* gray) {
  HWY_DYNAMIC_DISPATCH(gray_of_rgb_simd)(rgb, count, gray);
}

void saturate_rgb(std::uint8_t* rgb, std::int64_t count, std::int32_t factor) {
  HWY_DYNAMIC_DISPATCH(saturate_rgb_simd)(rgb, count, factor);
}

void turn_hue_rgb(std::uint8_t* rgb, std::int64_t count, std::int32_t turn) {
  HWY_DYNAMIC_DISPATCH(turn_hue_rgb_simd)(rgb, count, turn);
}

void mel_powers(const MelPlan& plan, const float* signal, std::int64_t frames, std::int64_t row,
                float* to, float* scratch) {
  HWY_DYNAMIC_DISPATCH(mel_powers_simd)(plan, signal, frames, row, to, scratch);
}

float weighted_samples(const float* samples, const float* weights, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(weighted_samples_simd)(samples, weights, count);
}

}  // namespace energon::kernels
#endif  // HWY_ONCE
