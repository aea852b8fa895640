//! Layouts, strides, shapes: the numbers must follow lengths and strides, whatever layout they might be taken for.

use anyhow::{Result, ensure};

use crate::{
    case::{Case, Context, Needs::Nothing},
    edge::Direction,
    problem::{Kind::Float, Problem},
    trial::{Flow, Trial},
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    Case { number: "V01", name: "no-layout-is-read-off-strides", needs: Nothing, run: no_layout_is_guessed },
    Case { number: "V02", name: "strides-of-single-elements-do-not-matter", needs: Nothing, run: spellings_of_single_elements },
    Case { number: "V04", name: "a-strided-call-after-a-packed-one", needs: Nothing, run: strided_after_packed },
];

/// A dimension of length 1 makes several layouts fit the same strides.
fn no_layout_is_guessed(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let depthwise = Problem::new(Float, &[1, 63, 8, 8], &[63, 1, 3, 3]).pads(&[1]).groups(63);
    let depthwise = depthwise.x_strides(&[4032, 1, 504, 63]).w_strides(&[9, 1, 3, 1]);
    let flat = Problem::new(Float, &[2, 1, 4, 6, 21], &[32, 1, 3, 5, 20]).w_strides(&[300, 1, 100, 20, 1]);
    let pointwise = Problem::new(Float, &[2, 3, 5, 5], &[32, 3, 1, 1]).w_strides(&[3, 1, 3, 3]);
    for (name, problem) in [("depthwise", depthwise), ("one_channel_3d", flat), ("pointwise", pointwise)] {
        for direction in Direction::ALL {
            Trial::of(problem.clone()).direction(direction).right(cx, &session, &format!("{name}_{}", direction.name()))?;
        }
    }
    Ok(())
}

/// The stride of a dimension of length 1 says nothing; every spelling is the same tensor.
fn spellings_of_single_elements(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let pixel = Problem::new(Float, &[8, 16, 1, 1], &[32, 16, 1, 1]);
    let spellings: [&[usize]; 3] = [&[16, 1, 16, 16], &[16, 1, 1, 1], &[16, 1, 128, 7]];
    let mut answers = Vec::new();
    for (i, x) in spellings.iter().enumerate() {
        for (j, w) in spellings.iter().enumerate() {
            let problem = pixel.clone().x_strides(x).w_strides(w);
            answers.push(Trial::of(problem).right(cx, &session, &format!("pixel_x{i}_w{j}"))?.bytes);
        }
    }
    ensure!(answers.windows(2).all(|pair| pair[0] == pair[1]), "the spellings of one pixel give different bits");
    // All strides alike: element (n, c) shares its place with all others of the same n + c. Legal for what is only read.
    let shared = (0..8 * 16).map(|i| ((i / 16 + i % 16) % 5) as f64 - 2.0).collect();
    Trial::of(pixel.x_strides(&[16, 16, 16, 16])).input(0, shared).right(cx, &session, "pixel_shared")?;
    let plane = Problem::new(Float, &[2, 1, 8, 8], &[4, 1, 3, 3]).pads(&[1]);
    let first = Trial::of(plane.clone().x_strides(&[64, 64, 8, 1])).right(cx, &session, "plane_nchw")?;
    let last = Trial::of(plane.x_strides(&[64, 1, 8, 1])).right(cx, &session, "plane_nhwc")?;
    ensure!(first.bytes == last.bytes, "the spellings of one channel give different bits");
    Ok(())
}

/// Strides are part of what a plan is for.
fn strided_after_packed(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let packed = Problem::new(Float, &[1, 8, 8, 8], &[8, 8, 3, 3]).pads(&[1]);
    let strided = packed.clone().x_strides(&[1024, 128, 16, 1]);
    Trial::of(packed.clone()).right(cx, &session, "packed")?;
    Trial::of(strided).flow(Flow::Unfound).seed(2).right(cx, &session, "strided")?;
    Trial::of(packed).flow(Flow::Unfound).seed(3).right(cx, &session, "packed_again")?;
    Ok(())
}
