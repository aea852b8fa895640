//! Tensor descriptors: their state and every function that sets or reads it. Computation on tensors is elsewhere.

use miopen_api::{data_type, status, tensor_layout};

use crate::args::{In, New, Obj, Out, create, object};
use crate::failure::{Failure, Outcome, bad, fail};

/// A tensor descriptor. Dimensions are in NC(D)HW order, whatever the layout, but for CHWNc ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub data_type: i32,
    pub cast_type: Option<i32>,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    /// 4 or 8 for vectorised layouts, else 1.
    pub vector_length: usize,
    /// Only if a layout was given.
    pub layout: Option<i32>,
}
object!(Tensor, 0x6d69_5465_6e73_6f72, "tensor descriptor");

/// Bytes of an element.
pub fn element_size(data_type: i32) -> Result<usize, Failure> {
    Ok(match data_type {
        data_type::INT8 | data_type::FLOAT8_FNUZ | data_type::BFLOAT8_FNUZ => 1,
        data_type::HALF | data_type::BFLOAT16 => 2,
        data_type::FLOAT | data_type::INT32 => 4,
        data_type::DOUBLE | data_type::INT64 => 8,
        _ => return Err(fail(status::UNKNOWN_ERROR, format!("{data_type} is no data type"))),
    })
}

/// Strides of dense dimensions, the last of `order` innermost, in units of elements, the innermost being `unit`.
fn dense_strides(dims: &[usize], order: &[usize], unit: usize) -> Vec<usize> {
    let mut strides = vec![0; dims.len()];
    let mut next = unit;
    for &axis in order.iter().rev() {
        strides[axis] = next;
        next = next.wrapping_mul(dims[axis]);
    }
    strides
}

/// From outermost to innermost: the axes of a layout that is not vectorised, in the order in which layouts are guessed.
const PLAIN_LAYOUTS: [(i32, &[usize]); 5] = [
    (tensor_layout::NCHW, &[0, 1, 2, 3]),
    (tensor_layout::NHWC, &[0, 2, 3, 1]),
    (tensor_layout::NCDHW, &[0, 1, 2, 3, 4]),
    (tensor_layout::NDHWC, &[0, 2, 3, 4, 1]),
    (tensor_layout::CHWN, &[1, 2, 3, 0]),
];

impl Tensor {
    fn empty() -> Tensor {
        Tensor { data_type: data_type::FLOAT, cast_type: None, dims: vec![], strides: vec![], vector_length: 1, layout: None }
    }

    /// Dimensions and strides as they come from a caller; without strides, dense.
    fn from_parts(data_type: i32, dims: Vec<usize>, strides: Option<Vec<usize>>) -> Result<Tensor, Failure> {
        let order: Vec<usize> = (0..dims.len()).collect();
        let strides = strides.unwrap_or_else(|| dense_strides(&dims, &order, 1));
        if dims.contains(&0) || strides.contains(&0) {
            return Err(bad("lengths and strides must be positive"));
        }
        Ok(Tensor { data_type, dims, strides, ..Tensor::empty() })
    }

    /// Without gaps, the last dimension innermost.
    pub fn packed(data_type: i32, dims: Vec<usize>) -> Tensor {
        let order: Vec<usize> = (0..dims.len()).collect();
        Tensor { data_type, strides: dense_strides(&dims, &order, 1), dims, ..Tensor::empty() }
    }

    fn from_layout(data_type: i32, layout: i32, dims: Vec<usize>) -> Result<Tensor, Failure> {
        let vector_length = match layout {
            tensor_layout::NCHWC4 | tensor_layout::CHWNC4 => 4,
            tensor_layout::NCHWC8 | tensor_layout::CHWNC8 => 8,
            _ => 1,
        };
        if dims.contains(&0) {
            return Err(bad("lengths must be positive"));
        }
        let tensor = if vector_length > 1 {
            let batch_last = matches!(layout, tensor_layout::CHWNC4 | tensor_layout::CHWNC8);
            let dims = vectorised_dims(&dims, vector_length, batch_last)?;
            Tensor { strides: dense_strides(&dims, &[0, 1, 2, 3], vector_length), dims, ..Tensor::empty() }
        } else {
            let order = PLAIN_LAYOUTS.iter().find(|(l, order)| *l == layout && order.len() == dims.len());
            let (_, order) = order.ok_or_else(|| bad(format!("layout {layout} does not have {} dimensions", dims.len())))?;
            Tensor { strides: dense_strides(&dims, order, 1), dims, ..Tensor::empty() }
        };
        Ok(Tensor { data_type, vector_length, layout: Some(layout), ..tensor })
    }

    /// Elements from the first to the end of the last: not the padded allocation.
    pub fn element_space(&self) -> usize {
        let last = self.dims.iter().zip(&self.strides).map(|(d, s)| (d - 1).wrapping_mul(*s)).fold(0, usize::wrapping_add);
        last.wrapping_add(self.vector_length)
    }

    /// Whether the batch (a filter's output channels) is the last dimension.
    fn batch_is_last(&self) -> bool {
        matches!(self.layout, Some(tensor_layout::CHWNC4 | tensor_layout::CHWNC8))
    }

    /// Dimensions with the batch first, whatever the layout; the channels in vectors.
    pub fn batch_first_dims(&self) -> Vec<usize> {
        self.batch_first(&self.dims)
    }

    /// Strides in the same order.
    pub fn batch_first_strides(&self) -> Vec<usize> {
        self.batch_first(&self.strides)
    }

    fn batch_first(&self, values: &[usize]) -> Vec<usize> {
        let mut values = values.to_vec();
        if self.batch_is_last() {
            values.rotate_right(1);
        }
        values
    }

    /// The layout that was set, else the first whose strides do not increase.
    fn layout(&self) -> Option<i32> {
        let fits =
            |order: &[usize]| order.len() == self.dims.len() && order.windows(2).all(|pair| self.strides[pair[0]] >= self.strides[pair[1]]);
        self.layout.or_else(|| PLAIN_LAYOUTS.iter().find(|(_, order)| fits(order)).map(|(layout, _)| *layout))
    }
}

/// Channels in units of vectors; the batch moves behind the rest for CHWNc.
fn vectorised_dims(dims: &[usize], vector_length: usize, batch_last: bool) -> Result<Vec<usize>, Failure> {
    let &[n, c, h, w] = dims else { return Err(bad("vectorised layouts have four dimensions")) };
    if c % vector_length != 0 {
        return Err(bad(format!("{c} channels do not divide into vectors of {vector_length}")));
    }
    let c = c / vector_length;
    Ok(if batch_last { vec![c, h, w, n] } else { vec![n, c, h, w] })
}

/// Dimensions given as `int`: none may be negative or zero.
fn positive(values: Vec<i32>) -> Result<Vec<usize>, Failure> {
    let convert = |v: i32| usize::try_from(v).ok().filter(|v| *v > 0);
    values.into_iter().map(convert).collect::<Option<_>>().ok_or_else(|| bad("lengths and strides must be positive"))
}

/// The number of dimensions, and that there are any.
fn rank(given: i32, dims_missing: bool) -> Result<usize, Failure> {
    match usize::try_from(given) {
        Ok(rank) if rank > 0 && !dims_missing => Ok(rank),
        _ => Err(fail(status::INVALID_VALUE, "no dimensions")),
    }
}

pub fn miopenCreateTensorDescriptor(out: Out<New<Tensor>>) -> Outcome {
    create(&out, Tensor::empty())
}

pub fn miopenDestroyTensorDescriptor(tensor: Obj<Tensor>) -> Outcome {
    tensor.destroy()
}

pub fn miopenSet4dTensorDescriptor(mut tensor: Obj<Tensor>, data_type: i32, n: i32, c: i32, h: i32, w: i32) -> Outcome {
    *tensor.get_mut()? = Tensor::from_parts(data_type, positive(vec![n, c, h, w])?, None)?;
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn miopenSet4dTensorDescriptorEx(
    mut tensor: Obj<Tensor>,
    data_type: i32,
    n: i32,
    c: i32,
    h: i32,
    w: i32,
    n_stride: i32,
    c_stride: i32,
    h_stride: i32,
    w_stride: i32,
) -> Outcome {
    let tensor = tensor.get_mut()?;
    let strides = positive(vec![n_stride, c_stride, h_stride, w_stride])?;
    *tensor = Tensor::from_parts(data_type, positive(vec![n, c, h, w])?, Some(strides))?;
    Ok(())
}

pub fn miopenSetTensorDescriptor(mut tensor: Obj<Tensor>, data_type: i32, rank_given: i32, dims: In<i32>, strides: In<i32>) -> Outcome {
    let tensor = tensor.get_mut()?;
    let rank = rank(rank_given, dims.read().is_none())?;
    let strides = strides.read_all(rank).map(positive).transpose()?;
    *tensor = Tensor::from_parts(data_type, positive(dims.read_all(rank).unwrap_or_default())?, strides)?;
    Ok(())
}

pub fn miopenSetTensorDescriptorV2(
    mut tensor: Obj<Tensor>,
    data_type: i32,
    rank_given: i32,
    dims: In<usize>,
    strides: In<usize>,
) -> Outcome {
    let tensor = tensor.get_mut()?;
    let rank = rank(rank_given, dims.read().is_none())?;
    *tensor = Tensor::from_parts(data_type, dims.read_all(rank).unwrap_or_default(), strides.read_all(rank))?;
    Ok(())
}

pub fn miopenSetNdTensorDescriptorWithLayout(
    mut tensor: Obj<Tensor>,
    data_type: i32,
    layout: i32,
    dims: In<i32>,
    rank_given: i32,
) -> Outcome {
    let tensor = tensor.get_mut()?;
    let rank = rank(rank_given, dims.read().is_none())?;
    *tensor = Tensor::from_layout(data_type, layout, positive(dims.read_all(rank).unwrap_or_default())?)?;
    Ok(())
}

pub fn miopenSetTensorCastType(mut tensor: Obj<Tensor>, cast_type: i32) -> Outcome {
    tensor.get_mut()?.cast_type = Some(cast_type);
    Ok(())
}

/// Without a cast type the caller's variable stays as it is (how the real library answers then is not known).
pub fn miopenGetTensorCastType(tensor: Obj<Tensor>, cast_type: Out<i32>) -> Outcome {
    if let Some(set) = tensor.get()?.cast_type {
        cast_type.put(set)?;
    }
    Ok(())
}

pub fn miopenGetTensorDescriptorSize(tensor: Obj<Tensor>, size: Out<i32>) -> Outcome {
    size.put(tensor.get()?.dims.len() as i32)
}

/// `int` getters cut 64-bit values silently, as the real ones do.
pub fn miopenGetTensorDescriptor(tensor: Obj<Tensor>, data_type: Out<i32>, dims: Out<i32>, strides: Out<i32>) -> Outcome {
    let tensor = tensor.get()?;
    data_type.put_if(tensor.data_type);
    dims.put_all(tensor.dims.iter().map(|d| *d as i32));
    strides.put_all(tensor.strides.iter().map(|s| *s as i32));
    Ok(())
}

pub fn miopenGetTensorDescriptorV2(tensor: Obj<Tensor>, data_type: Out<i32>, dims: Out<usize>, strides: Out<usize>) -> Outcome {
    let tensor = tensor.get()?;
    data_type.put_if(tensor.data_type);
    dims.put_all(tensor.dims.iter().copied());
    strides.put_all(tensor.strides.iter().copied());
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn miopenGet4dTensorDescriptor(
    tensor: Obj<Tensor>,
    data_type: Out<i32>,
    n: Out<i32>,
    c: Out<i32>,
    h: Out<i32>,
    w: Out<i32>,
    n_stride: Out<i32>,
    c_stride: Out<i32>,
    h_stride: Out<i32>,
    w_stride: Out<i32>,
) -> Outcome {
    let tensor = tensor.get()?;
    if tensor.dims.len() != 4 {
        return Err(bad("the tensor does not have four dimensions"));
    }
    data_type.put(tensor.data_type)?;
    for (out, value) in [n, c, h, w].iter().zip(&tensor.dims) {
        out.put(*value as i32)?;
    }
    for (out, value) in [n_stride, c_stride, h_stride, w_stride].iter().zip(&tensor.strides) {
        out.put(*value as i32)?;
    }
    Ok(())
}

pub fn miopenGetTensorNumBytes(tensor: Obj<Tensor>, bytes: Out<usize>) -> Outcome {
    let tensor = tensor.get()?;
    bytes.put(tensor.element_space().wrapping_mul(element_size(tensor.data_type)?))
}

pub fn miopenGetTensorLayout(tensor: Obj<Tensor>, layout: Out<i32>) -> Outcome {
    let found = tensor.get()?.layout();
    layout.put(found.ok_or_else(|| fail(status::UNKNOWN_ERROR, "the strides fit no layout"))?)
}

pub fn miopenGetTensorElementSpace(tensor: Obj<Tensor>, elements: Out<usize>) -> Outcome {
    elements.put(tensor.get()?.element_space())
}

pub fn miopenIsTensorPacked(tensor: Obj<Tensor>, packed: Out<bool>) -> Outcome {
    let tensor = tensor.get()?;
    let elements = tensor.dims.iter().fold(tensor.vector_length, |a, d| a.wrapping_mul(*d));
    packed.put(elements == tensor.element_space())
}

pub fn miopenGetTensorVectorLength(tensor: Obj<Tensor>, length: Out<usize>) -> Outcome {
    length.put(tensor.get()?.vector_length)
}
