// How far approximate instructions are from the nearest number.
#pragma once

namespace lathe::ptx {

/// 0: as near as f32 can be. 1 and -1: each result of ex2.approx, rcp.approx and rsqrt.approx in f32
/// is larger or smaller by one unit in the last place, of div.approx by two: the documented errors.
/// Results that are an f32 without any error stay.
int& approximation_step();

}  // namespace lathe::ptx
