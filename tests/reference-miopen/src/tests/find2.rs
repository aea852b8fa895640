//! The find-2.0 style: as MIGraphX calls it, solutions that outlive everything, and blobs that another process loads or must refuse.

use core::mem::offset_of;
use core::ptr::null_mut;

use miopen_api::{conv_algorithm, data_type, find_results_order, problem_direction, tensor_layout};

use super::case::{Case, DIRECTIONS, Direction, PLAIN, STYLES, Tensors};
use super::{Pointer, a, code, handle, made, p, tensor_of};
use crate::args::Raw;
use crate::convolution::{miopenDestroyConvolutionDescriptor, miopenSetConvolutionGroupCount};
use crate::find2::options::*;
use crate::find2::problem::*;
use crate::find2::solution::*;
use crate::immediate::SOLUTION;
use crate::tensor::*;

const X: i32 = 1;
const W: i32 = 2;
const Y: i32 = 3;

fn number(direction: Direction) -> i32 {
    match direction {
        Direction::Forward => problem_direction::FORWARD,
        Direction::BackwardData => problem_direction::BACKWARD,
        Direction::BackwardWeights => problem_direction::BACKWARD_WEIGHTS,
    }
}

/// A problem whose descriptors are changed and destroyed before anything is asked of it.
fn problem(case: &Case, direction: Direction, tensors: &Tensors) -> Pointer {
    let conv = case.convolution();
    let problem = made(|out| miopenCreateConvProblem(a(out), a(conv), number(direction)));
    miopenSetConvolutionGroupCount(a(conv), 77).unwrap();
    miopenDestroyConvolutionDescriptor(a(conv)).unwrap();
    for (id, tensor) in [(X, &tensors.x), (W, &tensors.w), (Y, &tensors.y)] {
        let tensor = tensor.descriptor();
        miopenSetProblemTensorDescriptor(a(problem), id, a(tensor)).unwrap();
        miopenSet4dTensorDescriptor(a(tensor), data_type::INT8, 1, 1, 1, 1).unwrap();
        miopenDestroyTensorDescriptor(a(tensor)).unwrap();
    }
    problem
}

/// Status, number of solutions, first solution.
fn find(problem: Pointer, options: Pointer, room: u64) -> (i32, usize, Pointer) {
    let (mut count, mut solutions): (usize, [Pointer; 2]) = (9, [null_mut(); 2]);
    let status = code(miopenFindSolutions(a(handle()), a(problem), a(options), a(p(&mut solutions)), a(p(&mut count)), room));
    assert!(solutions[1].is_null());
    (status, count, solutions[0])
}

fn arguments(memory: [Pointer; 3]) -> [TensorArgument; 3] {
    // In another order than that of their numbers.
    [(Y, memory[2]), (X, memory[0]), (W, memory[1])].map(|(id, buffer)| TensorArgument {
        id,
        descriptor: Raw(null_mut()),
        buffer: Raw(buffer),
    })
}

fn run(solution: Pointer, arguments: &[TensorArgument]) -> i32 {
    let none = a(null_mut());
    code(miopenRunSolution(a(handle()), a(solution), arguments.len() as u64, a(arguments.as_ptr().cast_mut().cast()), none, 0))
}

fn data(tensors: &mut Tensors) -> [Pointer; 3] {
    [tensors.x.data(), tensors.w.data(), tensors.y.data()]
}

fn save(solution: Pointer) -> Vec<u8> {
    let mut size = 0usize;
    miopenGetSolutionSize(a(solution), a(p(&mut size))).unwrap();
    let mut blob = vec![0xaa; size + 1];
    miopenSaveSolution(a(solution), a(blob.as_mut_ptr().cast())).unwrap();
    assert_eq!(blob.pop(), Some(0xaa), "not a byte more than was said");
    blob
}

/// Status and solution. The blob lies where reading beyond it would be noticed by tools that look for that.
fn load(blob: &[u8]) -> (i32, Pointer) {
    let (mut solution, blob) = (null_mut::<core::ffi::c_void>(), blob.to_vec().into_boxed_slice());
    let status = code(miopenLoadSolution(a(p(&mut solution)), a(blob.as_ptr().cast_mut().cast()), blob.len() as u64));
    (status, solution)
}

#[test]
fn arguments_lie_as_in_c() {
    assert_eq!((offset_of!(TensorArgument, id), offset_of!(TensorArgument, descriptor), offset_of!(TensorArgument, buffer)), (0, 8, 16));
    assert_eq!(size_of::<TensorArgument>(), 24);
}

/// Options, find on given memory, sizes, save; then load and run.
#[test]
fn computes_what_the_classic_call_does() {
    for case in STYLES {
        for direction in DIRECTIONS {
            case.check_style(direction, |tensors| {
                let problem = problem(&case, direction, tensors);
                let (options, memory) = (made(|out| miopenCreateFindOptions(a(out))), data(tensors));
                miopenSetFindOptionTuning(a(options), 1).unwrap();
                miopenSetFindOptionResultsOrder(a(options), find_results_order::WORKSPACE_SIZE).unwrap();
                miopenSetFindOptionWorkspaceLimit(a(options), 0).unwrap();
                miopenSetFindOptionPreallocatedWorkspace(a(options), a(null_mut()), 0).unwrap();
                miopenSetFindOptionAttachBinaries(a(options), 1).unwrap();
                for (id, memory) in [X, W, Y].into_iter().zip(memory) {
                    miopenSetFindOptionPreallocatedTensor(a(options), id, a(memory)).unwrap();
                }
                let (status, count, solution) = find(problem, options, 2);
                assert_eq!((status, count), (0, 1));
                let output = tensors.output(direction);
                assert!(output.bytes.iter().any(|byte| *byte != 0xff), "Find overwrites the output that it was given");
                let size = output.bytes.len();
                output.bytes = vec![0xff; size];
                miopenDestroyProblem(a(problem)).unwrap();
                miopenDestroyFindOptions(a(options)).unwrap();
                let (status, loaded) = load(&save(solution));
                assert_eq!(status, 0);
                miopenDestroySolution(a(solution)).unwrap();
                assert_eq!(run(loaded, &arguments(data(tensors))), 0);
                miopenDestroySolution(a(loaded)).unwrap();
            });
        }
    }
}

#[test]
fn solutions_answer_questions() {
    let tensors = PLAIN.tensors();
    // Without options or memory, Find uses memory of its own.
    let (status, count, solution) = find(problem(&PLAIN, Direction::Forward, &tensors), null_mut(), 1);
    assert_eq!((status, count), (0, 1));
    let (mut time, mut size, mut solver, mut algorithm) = (0f32, 9usize, 0u64, -1i32);
    miopenGetSolutionTime(a(solution), a(p(&mut time))).unwrap();
    miopenGetSolutionWorkspaceSize(a(solution), a(p(&mut size))).unwrap();
    miopenGetSolutionSolverId(a(solution), a(p(&mut solver))).unwrap();
    miopenGetSolverIdConvAlgorithm(solver, a(p(&mut algorithm))).unwrap();
    assert!(time > 0.0);
    assert_eq!((size, solver, algorithm), (0, SOLUTION, conv_algorithm::DIRECT));
    assert_eq!(code(miopenGetSolverIdConvAlgorithm(SOLUTION + 1, a(p(&mut algorithm)))), 2);
    assert_eq!(code(miopenGetSolutionTime(a(null_mut()), a(p(&mut time)))), 3);
}

#[test]
fn problems_must_be_complete() {
    let (conv, t) = (PLAIN.convolution(), |dims: &[i32]| tensor_of(data_type::FLOAT, dims, None));
    let new = |direction| made(|out| miopenCreateConvProblem(a(out), a(conv), direction));
    let set = |problem, id, tensor| code(miopenSetProblemTensorDescriptor(a(problem), id, a(tensor)));
    let problem = new(problem_direction::FORWARD);
    assert_eq!(find(problem, null_mut(), 1).0, 2);
    assert_eq!([set(problem, X, t(PLAIN.x)), set(problem, W, t(PLAIN.w)), set(problem, W, t(PLAIN.w))], [0, 0, 3]);
    assert_eq!(find(problem, null_mut(), 1).0, 2);
    assert_eq!([set(problem, Y, null_mut()), set(problem, Y, t(&PLAIN.y()))], [3, 0]);
    assert_eq!((find(problem, null_mut(), 1).0, find(problem, null_mut(), 0)), (0, (0, 0, null_mut())));
    assert_eq!(set(problem, 99, t(PLAIN.x)), 0, "numbers that mean nothing are taken");
    assert_eq!(find(problem, null_mut(), 1).0, 2, "but a convolution has exactly three tensors");
    let filled = |direction, kind: i32, y: &[i32]| {
        let problem = new(direction);
        for (id, dims) in [(X, PLAIN.x), (W, PLAIN.w), (Y, y)] {
            set(problem, id, tensor_of(kind, dims, None));
        }
        find(problem, null_mut(), 1).0
    };
    assert_eq!(filled(problem_direction::INFERENCE, data_type::FLOAT, &PLAIN.y()), 6);
    assert_eq!(filled(problem_direction::FORWARD, data_type::INT32, &PLAIN.y()), 7, "no solution");
    assert_eq!(filled(problem_direction::FORWARD, data_type::FLOAT, PLAIN.x), 3);
    assert_eq!(code(miopenCreateConvProblem(a(null_mut()), a(conv), 0)), 3);
    let mut out: Pointer = null_mut();
    assert_eq!(code(miopenCreateConvProblem(a(p(&mut out)), a(null_mut()), 0)), 3);
    let (h, none) = (handle(), null_mut());
    assert_eq!(code(miopenFindSolutions(a(none), a(problem), a(none), a(p(&mut out)), a(none), 1)), 3);
    assert_eq!(code(miopenFindSolutions(a(h), a(new(0)), a(none), a(none), a(none), 1)), 2);
    let options = [code(miopenSetFindOptionTuning(a(none), 1)), code(miopenSetFindOptionPreallocatedTensor(a(none), X, a(none)))];
    assert_eq!(options, [3, 3]);
    assert_eq!(
        [code(miopenDestroyProblem(a(none))), code(miopenDestroyFindOptions(a(none))), code(miopenDestroySolution(a(none)))],
        [0; 3]
    );
}

#[test]
fn runs_take_each_tensor_once() {
    let mut tensors = PLAIN.tensors();
    let (_, _, solution) = find(problem(&PLAIN, Direction::Forward, &tensors), null_mut(), 1);
    let good = arguments(data(&mut tensors));
    let with = |i: usize, change: fn(&mut TensorArgument)| {
        let mut arguments = good;
        change(&mut arguments[i]);
        run(solution, &arguments)
    };
    assert_eq!((run(solution, &good), run(solution, &good[..2]), run(solution, &[good[0]; 4])), (0, 2, 2));
    assert_eq!([with(0, |t| t.id = X), with(1, |t| t.id = 99), with(2, |t| t.buffer = Raw(null_mut()))], [2, 2, 3]);
    assert_eq!(code(miopenRunSolution(a(handle()), a(solution), 3, a(null_mut()), a(null_mut()), 0)), 3);
    assert_eq!([run(null_mut(), &good), run(handle(), &good)], [3, 3]);
}

/// A run's own descriptors: here another batch.
#[test]
fn runs_may_bring_descriptors() {
    let batch = Case { x: &[1, 3, 7, 8], ..PLAIN };
    let (_, _, solution) = find(problem(&PLAIN, Direction::Forward, &PLAIN.tensors()), null_mut(), 1);
    batch.check_style(Direction::Forward, |tensors| {
        let mut given = arguments(data(tensors));
        let (mut x, mut y) = (tensors.x.descriptor(), tensors.y.descriptor());
        given[1].descriptor = Raw(p(&mut x));
        assert_eq!(run(solution, &given), 3, "x alone does not fit");
        given[0].descriptor = Raw(p(&mut y));
        assert_eq!(run(solution, &given), 0);
    });
}

#[test]
fn damaged_blobs_are_refused() {
    let (status, _, solution) = find(problem(&PLAIN, Direction::BackwardData, &PLAIN.tensors()), null_mut(), 1);
    let blob = save(solution);
    assert_eq!((status, load(&blob).0), (0, 0));
    for i in 0..blob.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = blob.clone();
            damaged[i] ^= flip;
            assert_eq!(load(&damaged).0, 7, "byte {i}");
        }
    }
    for length in [0, 1, 8, 15, 16, blob.len() - 8, blob.len() - 1] {
        assert_eq!(load(&blob[..length]).0, 7, "{length} bytes");
    }
    assert_eq!(load(&[&blob[..], &[0]].concat()).0, 7);
    assert_eq!(load(&[b'x'; 500]).0, 7);
    let (mut none, mut out) = (null_mut::<u8>(), null_mut::<u8>());
    assert_eq!(code(miopenLoadSolution(a(p(&mut out)), a(null_mut()), 8)), 3);
    assert_eq!(code(miopenLoadSolution(a(null_mut()), a(blob.as_ptr().cast_mut().cast()), blob.len() as u64)), 3);
    // The size is not the blob's: nothing is read at lengths that it does not have.
    assert_eq!(code(miopenLoadSolution(a(p(&mut none)), a(blob.as_ptr().cast_mut().cast()), u64::MAX)), 7);
    assert_eq!((none, out), (null_mut(), null_mut()), "nothing is made");
    assert_eq!(code(miopenSaveSolution(a(solution), a(null_mut()))), 3);
}

/// A layout that shows in no stride stays in the blob too.
#[test]
fn blobs_keep_vectors() {
    let descriptor = |dims: &[i32]| {
        let t = made(|out| miopenCreateTensorDescriptor(a(out)));
        let (dims, rank) = (dims.as_ptr().cast_mut().cast(), dims.len() as i32);
        miopenSetNdTensorDescriptorWithLayout(a(t), data_type::HALF, tensor_layout::NCHWC4, a(dims), rank).unwrap();
        t
    };
    let conv = PLAIN.convolution();
    let problem = made(|out| miopenCreateConvProblem(a(out), a(conv), problem_direction::FORWARD));
    for (id, dims) in [(X, &[2, 8, 5, 6]), (W, &[8, 8, 3, 3]), (Y, &[2, 8, 5, 6])] {
        miopenSetProblemTensorDescriptor(a(problem), id, a(descriptor(dims))).unwrap();
    }
    let blob = save(find(problem, null_mut(), 1).2);
    assert_eq!(blob, save(load(&blob).1));
}

const BLOB: &str = "REFERENCE_MIOPEN_TEST_BLOB";

fn file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("reference-miopen-{}-{name}", std::process::id()))
}

/// This process finds and saves, another one loads and runs.
#[test]
fn another_process_loads_and_runs() {
    let (blob, result) = (file("blob"), file("result"));
    PLAIN.check_style(Direction::Forward, |tensors| {
        std::fs::write(&blob, save(find(problem(&PLAIN, Direction::Forward, tensors), null_mut(), 1).2)).unwrap();
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        let other = other.args(["--exact", "tests::find2::is_another_process"]).env(BLOB, &blob).env(format!("{BLOB}_RESULT"), &result);
        assert!(other.output().unwrap().status.success());
        tensors.y.bytes = std::fs::read(&result).unwrap();
    });
    [blob, result].iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

/// The other process; nothing where it is not one.
#[test]
fn is_another_process() {
    let Some(blob) = std::env::var_os(BLOB) else { return };
    PLAIN.check_style(Direction::Forward, |tensors| {
        let (status, solution) = load(&std::fs::read(blob).unwrap());
        assert_eq!((status, run(solution, &arguments(data(tensors)))), (0, 0));
        std::fs::write(std::env::var_os(format!("{BLOB}_RESULT")).unwrap(), &tensors.y.bytes).unwrap();
    });
}
